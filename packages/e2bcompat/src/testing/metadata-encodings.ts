/** Metadata as a client's caller writes it. */
export type Pairs = readonly (readonly [key: string, value: string])[];

/** The value of the query parameter `metadata` on the wire, as one of the published clients writes it. */
type EncodeMetadata = (pairs: Pairs) => string;

/** `encodeURIComponent` on each text, `URLSearchParams` over them, and `encodeURIComponent` by the client's transport. */
export const asJavaScriptClient: EncodeMetadata = (pairs) => {
  const once = pairs.map(([key, value]) => [encodeURIComponent(key), encodeURIComponent(value)]);
  return encodeURIComponent(new URLSearchParams(Object.fromEntries(once) as Record<string, string>).toString());
};

/** What Python's `urllib.parse.quote` makes of a text. */
function quote(text: string, safe: string): string {
  return encodeURIComponent(text).replaceAll(/[!'()*]|%2F/g, (found) =>
    found === "%2F" ? (safe.includes("/") ? "/" : found) : `%${found.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

/** `quote` on each text, which leaves slashes, `urlencode` over them, and `quote` without exceptions by httpx. */
export const asPythonClient: EncodeMetadata = (pairs) => {
  const form = pairs.map(([key, value]) => `${quote(quote(key, "/"), "")}=${quote(quote(value, "/"), "")}`);
  return quote(form.join("&"), "");
};

/** What the clients sent (JavaScript 2.51.0, Python 2.63.0), captured from the wire. */
export const CAPTURED: readonly { readonly pairs: Pairs; readonly javaScript: string; readonly python: string }[] = [
  {
    pairs: [
      ["a b", "c/d&e=f+g"],
      ["ü", "1"],
    ],
    javaScript: "a%252520b%3Dc%25252Fd%252526e%25253Df%25252Bg%26%2525C3%2525BC%3D1",
    python: "a%252520b%3Dc%252Fd%252526e%25253Df%25252Bg%26%2525C3%2525BC%3D1",
  },
  {
    pairs: [["k", ""]],
    javaScript: "k%3D",
    python: "k%3D",
  },
  {
    pairs: [
      ["k", " "],
      ["l", "  two  "],
    ],
    javaScript: "k%3D%252520%26l%3D%252520%252520two%252520%252520",
    python: "k%3D%252520%26l%3D%252520%252520two%252520%252520",
  },
  {
    pairs: [
      ["&", "&&"],
      ["=", "=="],
      ["+", "++"],
      ["%", "%%"],
    ],
    javaScript:
      "%252526%3D%252526%252526%26%25253D%3D%25253D%25253D%26%25252B%3D%25252B%25252B%26%252525%3D%252525%252525",
    python: "%252526%3D%252526%252526%26%25253D%3D%25253D%25253D%26%25252B%3D%25252B%25252B%26%252525%3D%252525%252525",
  },
  {
    pairs: [
      ["%25", "%2525"],
      ["%zz", "%"],
      ["+%2B", "%20+ "],
    ],
    javaScript: "%25252525%3D%2525252525%26%252525zz%3D%252525%26%25252B%2525252B%3D%25252520%25252B%252520",
    python: "%25252525%3D%2525252525%26%252525zz%3D%252525%26%25252B%2525252B%3D%25252520%25252B%252520",
  },
  {
    pairs: [["a&b=c", "d&e=f"]],
    javaScript: "a%252526b%25253Dc%3Dd%252526e%25253Df",
    python: "a%252526b%25253Dc%3Dd%252526e%25253Df",
  },
  {
    pairs: [
      ["/", "//"],
      ["a/b", "/c/"],
    ],
    javaScript: "%25252F%3D%25252F%25252F%26a%25252Fb%3D%25252Fc%25252F",
    python: "%252F%3D%252F%252F%26a%252Fb%3D%252Fc%252F",
  },
  {
    pairs: [
      ["-._~", "-._~"],
      ["!*'()", "!*'()"],
    ],
    javaScript: "-._%257E%3D-._%257E%26%2521*%2527%2528%2529%3D%2521*%2527%2528%2529",
    python: "-._~%3D-._~%26%252521%25252A%252527%252528%252529%3D%252521%25252A%252527%252528%252529",
  },
  {
    pairs: [[":@$,;?#[]", '"<>\\^`{|}']],
    javaScript:
      "%25253A%252540%252524%25252C%25253B%25253F%252523%25255B%25255D%3D%252522%25253C%25253E%25255C%25255E%252560%25257B%25257C%25257D",
    python:
      "%25253A%252540%252524%25252C%25253B%25253F%252523%25255B%25255D%3D%252522%25253C%25253E%25255C%25255E%252560%25257B%25257C%25257D",
  },
  {
    pairs: [["\u0000", "\u0000x\u0000"]],
    javaScript: "%252500%3D%252500x%252500",
    python: "%252500%3D%252500x%252500",
  },
  {
    pairs: [["\u0009\u000d\u000a", "\u000b\u000c\u0085\u2028"]],
    javaScript: "%252509%25250D%25250A%3D%25250B%25250C%2525C2%252585%2525E2%252580%2525A8",
    python: "%252509%25250D%25250A%3D%25250B%25250C%2525C2%252585%2525E2%252580%2525A8",
  },
  {
    pairs: [["é", "e\u0301"]],
    javaScript: "%2525C3%2525A9%3De%2525CC%252581",
    python: "%2525C3%2525A9%3De%2525CC%252581",
  },
  {
    pairs: [
      ["漢字", "🙂👩\u200d👩\u200d👧"],
      ["\ufeff", "\uffff\ufffd\u{10ffff}"],
    ],
    javaScript:
      "%2525E6%2525BC%2525A2%2525E5%2525AD%252597%3D%2525F0%25259F%252599%252582%2525F0%25259F%252591%2525A9%2525E2%252580%25258D%2525F0%25259F%252591%2525A9%2525E2%252580%25258D%2525F0%25259F%252591%2525A7%26%2525EF%2525BB%2525BF%3D%2525EF%2525BF%2525BF%2525EF%2525BF%2525BD%2525F4%25258F%2525BF%2525BF",
    python:
      "%2525E6%2525BC%2525A2%2525E5%2525AD%252597%3D%2525F0%25259F%252599%252582%2525F0%25259F%252591%2525A9%2525E2%252580%25258D%2525F0%25259F%252591%2525A9%2525E2%252580%25258D%2525F0%25259F%252591%2525A7%26%2525EF%2525BB%2525BF%3D%2525EF%2525BF%2525BF%2525EF%2525BF%2525BD%2525F4%25258F%2525BF%2525BF",
  },
  {
    pairs: [
      ["9", "a"],
      ["10", "b"],
      ["z", "c"],
    ],
    javaScript: "9%3Da%2610%3Db%26z%3Dc",
    python: "9%3Da%2610%3Db%26z%3Dc",
  },
  {
    pairs: [["\u007f\u0080ÿ", "\u0001\u001f"]],
    javaScript: "%25257F%2525C2%252580%2525C3%2525BF%3D%252501%25251F",
    python: "%25257F%2525C2%252580%2525C3%2525BF%3D%252501%25251F",
  },
];
