/**
 * Numbers that the original project published for its own store, on its own machines: for the order of magnitude. What
 * counts is each figure's ratio to a baseline of the same run.
 */
const PUBLISHED: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "store.get-by-name": { "26x100": "4.5 us, 13.5 KB", "200x2000": "38.9 us, 217 KB" },
  "store.get-by-id": { "200x2000": "68.9 us, 218 KB" },
  "store.warm-candidates.first": { "200x2000": "151 us, 69 KB" },
  "store.list.first": { "200x2000": "124 ms for 200 nodes, 50,000 sandboxes" },
  "watch.tick.churn": { "200x2000": "173 ms for 200 nodes, 50,000 sandboxes" },
  "create.redirect-added-p50": { "": "0.57 ms between two hosts" },
};

/** What was published for a figure. */
export function publishedFor(name: string, fleet: string): string | undefined {
  return PUBLISHED[name]?.[fleet];
}
