// What stands beside a page that has no server: answers on a grid, and what of the page can be moved. Null with a server.
export const exported = globalThis.ROOFLINE_EXPORT ?? null;
