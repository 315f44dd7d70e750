module bench-side-go

go 1.22.4

require github.com/smartcontractkit/data-streams-sdk/go v1.2.0

require (
	github.com/btcsuite/btcd/btcec/v2 v2.2.0 // indirect
	github.com/decred/dcrd/dcrec/secp256k1/v4 v4.0.1 // indirect
	github.com/ethereum/go-ethereum v1.14.7 // indirect
	github.com/holiman/uint256 v1.3.0 // indirect
	golang.org/x/crypto v0.22.0 // indirect
	golang.org/x/sys v0.20.0 // indirect
	nhooyr.io/websocket v1.8.11 // indirect
)
