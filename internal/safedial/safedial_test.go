package safedial

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
)

// R3.1: destinations that others name do not lead into our own network.
func TestCheck(t *testing.T) {
	const public, private, never = "public", "private", "never"
	for _, c := range []struct{ addr, want string }{
		{"1.1.1.1", public}, {"8.8.8.8", public}, {"9.255.255.255", public}, {"11.0.0.0", public},
		{"100.63.255.255", public}, {"100.128.0.0", public}, {"126.255.255.255", public}, {"128.0.0.1", public},
		{"169.253.255.255", public}, {"169.255.0.0", public}, {"172.15.255.255", public}, {"172.32.0.0", public},
		{"192.0.1.0", public}, {"192.0.3.0", public}, {"192.167.255.255", public}, {"192.169.0.0", public},
		{"198.17.255.255", public}, {"198.20.0.0", public}, {"223.255.255.255", public},
		{"2001:4860:4860::8888", public}, {"2606:4700:4700::1111", public}, {"2a00:1450::1", public},
		{"2001:200::1", public}, {"2001:db7::1", public}, {"2003::1", public}, {"3ffe::1", public},

		{"10.0.0.0", private}, {"10.255.255.255", private}, {"127.0.0.1", private}, {"127.255.255.254", private},
		{"100.64.0.0", private}, {"100.127.255.255", private}, {"172.16.0.1", private}, {"172.31.255.255", private},
		{"192.168.0.1", private}, {"192.168.255.255", private}, {"::1", private}, {"fc00::1", private},
		{"fd12:3456:789a::1", private}, {"fdff:ffff::1", private},

		{"0.0.0.0", never}, {"0.1.2.3", never}, {"169.254.0.1", never}, {"169.254.169.254", never},
		{"100.100.100.200", never}, {"192.0.0.1", never}, {"192.0.0.192", never}, {"192.0.2.1", never},
		{"192.31.196.1", never}, {"192.52.193.1", never}, {"192.88.99.1", never}, {"192.175.48.1", never},
		{"198.18.0.1", never}, {"198.19.255.255", never}, {"198.51.100.7", never}, {"203.0.113.9", never},
		{"224.0.0.1", never}, {"239.255.255.255", never}, {"240.0.0.1", never}, {"255.255.255.255", never},
		{"::", never}, {"::2", never}, {"::127.0.0.1", never}, {"::ffff:127.0.0.1", never}, {"::ffff:8.8.8.8", never},
		{"::ffff:0:7f00:1", never}, {"64:ff9b::7f00:1", never}, {"64:ff9b::808:808", never}, {"64:ff9b:1::1", never},
		{"100::1", never}, {"2001::1", never}, {"2001:2::1", never}, {"2001:1ff::1", never}, {"2001:db8::1", never},
		{"2002:7f00:1::1", never}, {"2002:808:808::1", never}, {"3fff::1", never}, {"5f00::1", never},
		{"fd00:ec2::254", never}, {"fd20:ce::254", never}, {"fe80::1", never}, {"fe80::1%lo", never}, {"::1%lo", never},
		{"febf::1", never}, {"fec0::1", never}, {"ff02::1", never}, {"ff0e::1", never}, {"4000::1", never}, {"1fff::1", never},
	} {
		addr := netip.MustParseAddr(c.addr)
		strict, open := Guard{}.Check(addr), Guard{AllowPrivate: true}.Check(addr)
		if (strict == nil) != (c.want == public) || (open == nil) != (c.want != never) {
			t.Errorf("%s: %v; private allowed: %v; want %s", c.addr, strict, open, c.want)
		}
		for _, err := range []error{strict, open} {
			if err != nil && !errors.Is(err, ErrRefused) {
				t.Errorf("%s: %v does not say that it was refused", c.addr, err)
			}
		}
	}
	if err := (Guard{}).Check(netip.Addr{}); !errors.Is(err, ErrRefused) {
		t.Errorf("the zero address: %v", err)
	}
}

func TestControlRefusesWhatIsNoTCPAddress(t *testing.T) {
	for _, c := range [][2]string{{"udp4", "8.8.8.8:53"}, {"unix", "/run/x.sock"}, {"tcp4", "example.com:443"}, {"tcp4", ""}} {
		if err := (Guard{AllowPrivate: true}).Control(t.Context(), c[0], c[1], nil); !errors.Is(err, ErrRefused) {
			t.Errorf("%q: %v", c, err)
		}
	}
	if err := (Guard{}).Control(t.Context(), "tcp4", "8.8.8.8:443", nil); err != nil {
		t.Error(err)
	}
}

func TestDialer(t *testing.T) {
	listener, accepted := listen(t)
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	for _, c := range []struct {
		guard   Guard
		host    string
		refused bool
	}{
		{Guard{}, "127.0.0.1", true},
		{Guard{}, "::ffff:127.0.0.1", true},
		{Guard{}, "0.0.0.0", true},
		{Guard{Resolver: resolver(t, "127.0.0.1")}, "inside.test", true},
		{Guard{Resolver: resolver(t, "169.254.169.254"), AllowPrivate: true}, "metadata.test", true},
		{Guard{AllowPrivate: true}, "127.0.0.1", false},
		{Guard{Resolver: resolver(t, "127.0.0.1"), AllowPrivate: true}, "inside.test", false},
	} {
		before := accepted.Load()
		conn, err := c.guard.Dialer().DialContext(t.Context(), "tcp", net.JoinHostPort(c.host, port))
		if conn != nil {
			conn.Close()
		}
		if c.refused != errors.Is(err, ErrRefused) || c.refused && accepted.Load() != before {
			t.Errorf("%s, private %t: %v, %d connections", c.host, c.guard.AllowPrivate, err, accepted.Load()-before)
		}
	}
}

// A name that is public when it is looked at and private when it is connected
// to gets nowhere.
func TestRebinding(t *testing.T) {
	listener, accepted := listen(t)
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	guard := Guard{Resolver: resolver(t, "93.184.215.14", "127.0.0.1")}
	first, err := guard.Resolver.LookupNetIP(t.Context(), "ip4", "rebind.test")
	if err != nil || len(first) != 1 || guard.Check(first[0]) != nil {
		t.Fatalf("the first look: %v, %v", first, err)
	}
	conn, err := guard.Dialer().DialContext(t.Context(), "tcp", net.JoinHostPort("rebind.test", port))
	if !errors.Is(err, ErrRefused) || conn != nil || !strings.Contains(err.Error(), "loopback") {
		t.Errorf("connected to %v: %v", conn, err)
	}
	if n := accepted.Load(); n != 0 {
		t.Errorf("%d connections arrived", n)
	}
}

func listen(t *testing.T) (net.Listener, *atomic.Int64) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted, done := new(atomic.Int64), make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			conn.Close()
		}
	}()
	t.Cleanup(func() { listener.Close(); <-done })
	return listener, accepted
}

// resolver answers every question for an IPv4 address with the next of the
// addresses, the last one for ever, and has no IPv6 addresses.
func resolver(t *testing.T, addresses ...string) *net.Resolver {
	server, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		question := make([]byte, 512)
		for asked := 0; ; {
			n, from, err := server.ReadFrom(question)
			if err != nil {
				return
			}
			answer, isA := reply(question[:n], addresses[min(asked, len(addresses)-1)])
			if isA {
				asked++
			}
			server.WriteTo(answer, from)
		}
	}()
	t.Cleanup(func() { server.Close(); <-done })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp4", server.LocalAddr().String())
	}}
}

// reply answers a DNS question (RFC 1035, section 4.1) with one A record, or
// with none if it asks for something else.
func reply(question []byte, address string) (answer []byte, isA bool) {
	end := 12
	for question[end] != 0 {
		end += int(question[end]) + 1
	}
	end += 5 // the root, type and class
	isA = binary.BigEndian.Uint16(question[end-4:]) == 1
	answer = append(answer, question[:end]...)
	answer[2], answer[3] = 0x85, 0x80 // an authoritative answer without error
	for i := 6; i < 12; i++ {
		answer[i] = 0 // no records; an option of the question is not repeated
	}
	if isA {
		answer[7] = 1
		answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
		answer = append(answer, netip.MustParseAddr(address).AsSlice()...)
	}
	return answer, isA
}
