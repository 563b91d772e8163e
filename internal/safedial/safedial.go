// Package safedial opens connections to addresses that others named, without
// letting them lead into our own network.
//
// It stands at the far edge of the flow, under every request that we make to a
// configured or foreign URL. Invariant: an address is judged when the kernel is
// about to connect to it, after all names have been resolved, so that neither a
// redirect nor a name that changes its address (rebinding) gets around it. It
// keeps no state; a crash here costs the connection.
package safedial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// ErrRefused says that the address is one that must not be connected to.
var ErrRefused = errors.New("safedial: address refused")

// Bounds of a connection.
const (
	// dialWithin bounds the resolution of the name and the connection together.
	dialWithin = 10 * time.Second
	// aliveEvery is how often an idle connection is probed.
	aliveEvery = 30 * time.Second
)

// Guard judges addresses. Its zero value allows public ones alone.
type Guard struct {
	// AllowPrivate also allows loopback, private, carrier-grade NAT and unique
	// local addresses; never link-local ones or cloud metadata services.
	AllowPrivate bool
	// Resolver resolves names; nil is the system's.
	Resolver *net.Resolver
}

// network is a range of addresses with what it is for.
type network struct {
	prefix netip.Prefix
	use    string
	// private ranges are open to a guard that allows them.
	private bool
}

// networks are the ranges that are not, or not surely, the public internet:
// IANA's special-purpose registries (read 2026-11-30). The first that fits wins.
var networks = table(
	"100.100.100.200/32 cloud metadata", "fd00:ec2::254/128 cloud metadata", "fd20:ce::254/128 cloud metadata",

	"0.0.0.0/8 unspecified", "10.0.0.0/8 +private", "100.64.0.0/10 +carrier-grade NAT", "127.0.0.0/8 +loopback",
	"169.254.0.0/16 link-local", "172.16.0.0/12 +private", "192.0.0.0/24 protocol assignments",
	"192.0.2.0/24 documentation", "192.31.196.0/24 AS112", "192.52.193.0/24 AMT", "192.88.99.0/24 6to4 relay",
	"192.168.0.0/16 +private", "192.175.48.0/24 AS112", "198.18.0.0/15 benchmark", "198.51.100.0/24 documentation",
	"203.0.113.0/24 documentation", "224.0.0.0/4 multicast", "240.0.0.0/4 reserved",

	"::/128 unspecified", "::1/128 +loopback", "::ffff:0:0/96 IPv4-mapped", "::/96 IPv4-compatible",
	"::ffff:0:0:0/96 IPv4-translated", "64:ff9b::/96 NAT64", "64:ff9b:1::/48 NAT64", "100::/64 discard",
	"2001::/23 protocol assignments", "2001:db8::/32 documentation", "2002::/16 6to4", "3fff::/20 documentation",
	"5f00::/16 segment routing", "fc00::/7 +unique local", "fe80::/10 link-local", "fec0::/10 site-local",
	"ff00::/8 multicast",
)

// globalUnicast holds every IPv6 address that is given out to the internet.
var globalUnicast = netip.MustParsePrefix("2000::/3")

func table(rows ...string) []network {
	var all []network
	for _, row := range rows {
		var prefix string
		var n network
		for i := range row {
			if row[i] == ' ' {
				prefix, n.use = row[:i], row[i+1:]
				break
			}
		}
		if n.use[0] == '+' {
			n.use, n.private = n.use[1:], true
		}
		n.prefix = netip.MustParsePrefix(prefix)
		all = append(all, n)
	}
	return all
}

// Check returns nil for an address that may be connected to, otherwise an error
// that wraps ErrRefused and says what the address is for.
func (g Guard) Check(addr netip.Addr) error {
	if !addr.IsValid() {
		return fmt.Errorf("%w: no address", ErrRefused)
	}
	if addr.Zone() != "" {
		return fmt.Errorf("%w: %s has a zone", ErrRefused, addr)
	}
	for _, n := range networks {
		if !n.prefix.Contains(addr) {
			continue
		}
		if n.private && g.AllowPrivate {
			return nil
		}
		return fmt.Errorf("%w: %s is %s (%s)", ErrRefused, addr, n.use, n.prefix)
	}
	if addr.Is6() && !globalUnicast.Contains(addr) {
		return fmt.Errorf("%w: %s is outside of the global unicast range", ErrRefused, addr)
	}
	return nil
}

// Control is for net.Dialer.ControlContext: it refuses the address that the
// socket is about to connect to.
func (g Guard) Control(_ context.Context, network, address string, _ syscall.RawConn) error {
	switch network {
	case "tcp4", "tcp6":
	default:
		return fmt.Errorf("%w: network %s", ErrRefused, network)
	}
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %q is no address", ErrRefused, address)
	}
	return g.Check(at.Addr())
}

// Dialer returns a dialer that connects only to what the guard allows.
func (g Guard) Dialer() *net.Dialer {
	return &net.Dialer{Timeout: dialWithin, KeepAlive: aliveEvery, Resolver: g.Resolver, ControlContext: g.Control}
}
