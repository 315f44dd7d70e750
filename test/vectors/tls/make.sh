#!/bin/sh
# Makes the certificates of this folder anew with OpenSSL: an authority, a server, a client, and an authority that signed neither.
set -eu
cd "$(dirname "$0")"
newkey() { openssl ecparam -name prime256v1 -genkey -noout | openssl pkcs8 -topk8 -nocrypt -out "$1.key"; }
for ca in ca other-ca; do
  newkey $ca
  openssl req -x509 -new -key $ca.key -subj "/CN=$ca of the tests" -days 36500 -out $ca.pem
done
sign() { # name, extensions
  newkey "$1"
  openssl req -new -key "$1.key" -subj "/CN=$1 of the tests" -out "$1.csr"
  printf '%s' "$2" > "$1.ext"
  openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 36500 -extfile "$1.ext" -out "$1.pem"
}
sign server 'subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1
extendedKeyUsage=serverAuth'
sign client 'extendedKeyUsage=clientAuth'
openssl pkcs8 -topk8 -v2 aes-256-cbc -passout pass:open-sesame -in client.key -out client-encrypted.key
rm -f ./*.csr ./*.ext ./*.srl ca.key other-ca.key
