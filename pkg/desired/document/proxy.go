// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package document

import (
	"fmt"
	"net/url"
	"strings"
)

// Proxy is the proxy of the cluster.
type Proxy struct {
	// HTTP and HTTPS are URLs of proxies. Empty: none.
	HTTP, HTTPS string
	// None lists what is reached without a proxy.
	None string
}

// Format implements [fmt.Formatter]: user names and passwords are left out of addresses.
func (p Proxy) Format(state fmt.State, _ rune) {
	_, _ = fmt.Fprintf(state, "{HTTP:%s HTTPS:%s None:%s}", withoutUserinfo(p.HTTP), withoutUserinfo(p.HTTPS), withoutUserinfo(p.None))
}

// ProxyVariables returns the names of the variables of the machine that configure a proxy.
func ProxyVariables() []string { return []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"} }

// variables returns the variables of the machine by name, without those that are empty.
func (p Proxy) variables() map[string]string {
	variables := map[string]string{"HTTP_PROXY": p.HTTP, "HTTPS_PROXY": p.HTTPS, "NO_PROXY": p.None}
	for name, value := range variables {
		if value == "" {
			delete(variables, name)
		}
	}
	return variables
}

// hasUserinfo reports whether text has a user name or password in it.
func hasUserinfo(text string) bool { return withoutUserinfo(text) != text }

// withoutUserinfo returns the URL with its user name and password replaced. A text with an @
// that is not a URL is replaced as a whole: what is before the @ may be a password.
func withoutUserinfo(text string) string {
	if !strings.Contains(text, "@") {
		return text
	}
	u, err := url.Parse(text)
	if err != nil || u.User == nil || u.Host == "" {
		return "xxxxx"
	}
	u.User = url.User("xxxxx")
	return u.String()
}
