/** Says where the server listens. */
export const announce = port => console.log(`http://127.0.0.1:${port}`)
