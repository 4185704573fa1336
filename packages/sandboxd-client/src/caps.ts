/** Cap of a good reply's body. */
export const replyCapBytes: number = 16 * 1024 * 1024;
/** Cap of an error reply's body: the rest is not read. */
export const errorCapBytes: number = 64 * 1024;
/** The most a reply head may take, its empty line included. */
export const headCapBytes: number = 16 * 1024;
