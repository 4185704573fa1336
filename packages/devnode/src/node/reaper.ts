import type { DevNodeLogger } from "../logger.ts";
import type { NodeMetrics } from "./metrics.ts";
import type { Pools } from "./pools.ts";
import type { Roster } from "./roster.ts";
import type { Sandbox, SandboxState } from "./sandbox.ts";

/** Options of {@link createReaper}. */
export interface ReaperOptions {
  readonly roster: Roster;
  readonly pools: Pools;
  readonly metrics: NodeMetrics;
  readonly hibernate: (sandbox: Sandbox) => Promise<void>;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly logger: DevNodeLogger;
}

/** Ends leases, pauses the idle and archives the paused. Node API §7.8. */
export interface Reaper {
  /** Looks at every sandbox once. */
  reap(): Promise<void>;
}

/** Makes a reaper; somebody else keeps the time. */
export function createReaper({ roster, pools, metrics, hibernate, now, logger }: ReaperOptions): Reaper {
  const busy = new Set<string>();

  const isPast = (time: number | undefined): boolean => time !== undefined && time <= now();
  const isIdle = (sandbox: Sandbox): boolean => {
    const idle = pools.policy(sandbox.facts.key)?.idleHibernateSeconds ?? 0;
    return (
      idle > 0 &&
      sandbox.facts.key.net === "none" &&
      sandbox.state === "running" &&
      sandbox.activeRelays === 0 &&
      now() - sandbox.lastActivity >= idle * 1000
    );
  };
  const isDue = (sandbox: Sandbox): boolean => {
    if (isPast(sandbox.deadline)) {
      return true;
    }
    const archiveAfter = pools.policy(sandbox.facts.key)?.archiveAfterSeconds ?? 0;
    if (sandbox.state === "hibernated") {
      return archiveAfter > 0 && now() - sandbox.lastActivity >= archiveAfter * 1000;
    }
    return isIdle(sandbox);
  };

  /** What has to happen to one that is due, inside a transition. Resolves with the state of one whose time is over. */
  const settle = async (sandbox: Sandbox): Promise<SandboxState | undefined> => {
    const policy = pools.policy(sandbox.facts.key);
    if (!isDue(sandbox)) {
      return undefined;
    }
    if (isPast(sandbox.deadline)) {
      if (sandbox.state === "archived" || sandbox.state === "failed") {
        return sandbox.state;
      }
      const poolArchives = sandbox.state === "hibernated" && (policy?.archiveAfterSeconds ?? 0) > 0;
      if (sandbox.onExpire !== "archive" && !poolArchives) {
        return sandbox.state;
      }
    } else if (sandbox.state !== "hibernated") {
      return undefined;
    }
    await sandbox.archive(policy?.archiveDeleteAfterSeconds ?? 0);
    metrics.archived();
    return undefined;
  };

  /** One sandbox's turn. What has to happen is decided again once the transitions before it are done. */
  const look = async (sandbox: Sandbox): Promise<void> => {
    if (busy.has(sandbox.id) || !isDue(sandbox)) {
      return;
    }
    busy.add(sandbox.id);
    try {
      const expired = await sandbox.transition(() => settle(sandbox));
      if (expired !== undefined && roster.remove(sandbox.id)) {
        if (expired === "archived") {
          metrics.archiveDeleted();
        } else {
          metrics.reaped();
        }
        await sandbox.release();
      } else if (sandbox.state === "running" && isIdle(sandbox)) {
        await hibernate(sandbox);
      }
    } catch (error) {
      if (roster.find(sandbox.id) === undefined) {
        // Released meanwhile.
        return;
      }
      logger.error({ sandbox: sandbox.id, err: error }, "lease could not be ended, trying again");
    } finally {
      busy.delete(sandbox.id);
    }
  };

  return {
    reap: async () => {
      await Promise.all([...roster.all()].map((sandbox) => look(sandbox)));
    },
  };
}
