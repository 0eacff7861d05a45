// Data of an exported page: answers on a grid, and the settings that can be changed. Null with a server.
export const exported = globalThis.ROOFLINE_EXPORT ?? null;
