package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// hosts are the names under which the private listener may be addressed. A page
// elsewhere can make a name of its own point here (DNS rebinding), and then its
// requests carry that name.
type hosts struct {
	names map[string]bool
	// anyAddress permits every literal address, for a listener on all of them: a
	// literal address cannot be made to point elsewhere.
	anyAddress bool
}

func newHosts(listen string, more []string) hosts {
	h := hosts{names: map[string]bool{"localhost": true, "127.0.0.1": true, "::1": true}}
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		host = listen
	}
	addr, err := netip.ParseAddr(host)
	h.anyAddress = host == "" && listen != "" || err == nil && addr.IsUnspecified()
	for _, name := range append([]string{host}, more...) {
		if name = hostname(name); name != "" {
			h.names[name] = true
		}
	}
	return h
}

// hostname returns the name of host or host:port in the form of comparison.
func hostname(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

func (h hosts) allow(hostport string) bool {
	name := hostname(hostport)
	if h.names[name] {
		return true
	}
	_, err := netip.ParseAddr(name)
	return h.anyAddress && err == nil
}

// foreignOrigin says whether a browser sends the request for a page that this
// server did not serve.
func foreignOrigin(r *http.Request, browsers *http.CrossOriginProtection) bool {
	if err := browsers.Check(r); err != nil {
		return true
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	u, err := url.Parse(origin)
	return err != nil || !strings.EqualFold(u.Host, r.Host)
}
