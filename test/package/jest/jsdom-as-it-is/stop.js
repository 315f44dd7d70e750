module.exports = () => globalThis.stopEngine()
