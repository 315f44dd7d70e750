/** The text of a certificate, for tests that never parse it. */
export const PEM = `-----BEGIN CERTIFICATE-----
MIIBszCCAVmgAwIBAgIUe0Zk
-----END CERTIFICATE-----
`
