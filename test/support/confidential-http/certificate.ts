/** What passes for a certificate where nobody opens it. */
export const PEM = `-----BEGIN CERTIFICATE-----
MIIBszCCAVmgAwIBAgIUe0Zk
-----END CERTIFICATE-----
`
