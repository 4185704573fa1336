import { describe, expect, it } from "vitest";

import { sniffType, typeByName } from "./content-type.ts";

describe("content types", () => {
  it.each([
    ["a.txt", "text/plain; charset=utf-8"],
    ["a.HTML", "text/html; charset=utf-8"],
    ["a.json", "application/json"],
    ["a.png", "image/png"],
    ["a.unknown-extension", undefined],
    ["png", undefined],
    [".bashrc", undefined],
  ])("by the name %s: %s", async (name, type) => {
    expect(await typeByName(name)).toBe(type);
  });

  it.each([
    ["", "text/plain; charset=utf-8"],
    ["plain ü", "text/plain; charset=utf-8"],
    ["a\0b", "application/octet-stream"],
    ["\x89PNG\r\n\x1a\n....", "image/png"],
    ["GIF89a...", "image/gif"],
    ["%PDF-1.7", "application/pdf"],
    ["PK\x03\x04", "application/zip"],
    ["\x1f\x8b\x08", "application/x-gzip"],
    ["RIFF....WEBPVP8 ", "image/webp"],
    ["....ftypisom", "video/mp4"],
    [" \n<!DOCTYPE html>", "text/html; charset=utf-8"],
    ["<bold>", "text/plain; charset=utf-8"],
    ["<?xml version='1.0'?>", "text/xml; charset=utf-8"],
  ])("by the content %j: %s", (content, type) => {
    expect(sniffType(Buffer.from(content, content.startsWith("plain") ? "utf8" : "latin1"))).toBe(type);
  });
});
