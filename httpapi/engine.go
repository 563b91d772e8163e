package httpapi

import (
	"github.com/unavez/unavez"
	"github.com/unavez/unavez/outbox"
)

// FromEngine returns what the API needs of an engine and its configuration.
func FromEngine(e *unavez.Engine, v Version) Deps {
	d := Deps{
		Store: e.Store, Applier: e.Applier, Relay: e.Relay, Listen: e.Config.Listen.Private, Hosts: e.Config.Listen.Hosts,
		Tokens: Tokens(e.Config.Tokens), KeyLifetime: e.Config.API.KeyLifetime, MetricsOpen: e.Config.API.MetricsOpen, Version: v,
		Registry: e.Registry, Logger: e.Logger,
	}
	for _, account := range e.Config.Accounts {
		d.Accounts = append(d.Accounts, Account{Name: account.Name, Shop: account.Shop})
	}
	for _, c := range e.Config.Destinations {
		d.Destinations = append(d.Destinations, outbox.Destination{Name: c.Name, URL: c.URL, Types: c.Types, Idempotent: c.Idempotent})
	}
	return d
}

// Tokens returns the tokens of a configuration, for EnsureAdminToken.
func Tokens(configured []unavez.Token) []Token {
	tokens := make([]Token, 0, len(configured))
	for _, t := range configured {
		tokens = append(tokens, Token{Name: t.Name, Role: Role(t.Role), Secret: string(t.Secret)})
	}
	return tokens
}
