// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package document

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// PullSecret has credentials of registries: "user:password" by registry, perhaps with
// a path. Only [ParsePullSecret] and [NewPullSecret] make one. It never prints itself.
type PullSecret struct {
	credentials map[string]string
}

// NewPullSecret returns the pull secret with credentials, each "user:password", by registry.
func NewPullSecret(credentials map[string]string) PullSecret {
	p := PullSecret{credentials: map[string]string{}}
	// If several entries mean one registry, the one that names it as images do counts.
	for _, registry := range slices.Backward(slices.Sorted(maps.Keys(credentials))) {
		p.credentials[registryKey(registry)] = credentials[registry]
	}
	return p
}

// ParsePullSecret reads a pull secret in the form .dockerconfigjson. Entries without a
// user, which some helper keeps elsewhere, are left out. The error contains no secrets.
func ParsePullSecret(text []byte) (PullSecret, error) {
	var file struct {
		Auths map[string]struct {
			Auth     string `json:"auth"`
			Username string `json:"username"`
			Password string `json:"password"`
		} `json:"auths"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		// What the decoder says could cite the text.
		return PullSecret{}, errors.New("the pull secret is not a .dockerconfigjson")
	}
	credentials := map[string]string{}
	for registry, entry := range file.Auths {
		credential := entry.Username + ":" + entry.Password
		if entry.Auth != "" {
			decoded, err := base64.StdEncoding.DecodeString(entry.Auth)
			if err != nil || !strings.Contains(string(decoded), ":") {
				return PullSecret{}, fmt.Errorf("the credentials of registry %s are not user:password in base64", registry)
			}
			credential = strings.TrimRight(string(decoded), "\x00")
		}
		if credential != ":" {
			credentials[registry] = credential
		}
	}
	return NewPullSecret(credentials), nil
}

// registryKey returns the registry of an entry, with its path and without the forms
// that old clients write: a scheme, the version of the API, and another name of Docker Hub.
func registryKey(registry string) string {
	registry = strings.TrimPrefix(strings.TrimPrefix(registry, "https://"), "http://")
	registry = strings.TrimSuffix(registry, "/")
	registry = strings.TrimSuffix(strings.TrimSuffix(registry, "/v1"), "/v2")
	return canonicalHub(registry)
}

// canonicalHub returns a location with the first name of Docker Hub in place of the others.
func canonicalHub(location string) string {
	host, rest, _ := strings.Cut(location, "/")
	if !slices.Contains(dockerHubNames, host) && host != dockerHubRegistry {
		return location
	}
	if rest == "" {
		return dockerHubNames[0]
	}
	return dockerHubNames[0] + "/" + rest
}

// lookup returns the credentials of the longest entry that location is, or is below.
// Empty: there are none.
func (p PullSecret) lookup(location string) string {
	location = canonicalHub(location)
	for {
		if credential, ok := p.credentials[location]; ok {
			return credential
		}
		i := strings.LastIndexByte(location, '/')
		if i < 0 {
			return ""
		}
		location = location[:i]
	}
}

// Format implements [fmt.Formatter] without printing the credentials.
func (PullSecret) Format(state fmt.State, _ rune) { _, _ = fmt.Fprint(state, "[pull secret]") }
