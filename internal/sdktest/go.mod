module github.com/unavez/unavez/internal/sdktest

go 1.26.0

replace github.com/unavez/unavez => ../..

require (
	github.com/stripe/stripe-go/v85 v85.0.0
	github.com/unavez/unavez v0.0.0-00010101000000-000000000000
)

require (
	github.com/bojanz/currency v1.4.2 // indirect
	github.com/cockroachdb/apd/v3 v3.2.1 // indirect
	github.com/go-json-experiment/json v1.27.2 // indirect
)
