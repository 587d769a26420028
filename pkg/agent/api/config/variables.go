// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package config

import (
	"fmt"
	"regexp"
)

// VariableSource says who knows the value of a variable.
type VariableSource string

const (
	// SourceValue is the document itself.
	SourceValue VariableSource = "Value"
	// SourceKept is the document before: the variable keeps the value that it had on the host. It
	// has none on a host where it never had one.
	SourceKept VariableSource = "Kept"
	// SourceDefaultRouteAddress is that of the preferred addresses which the host has, and else
	// the first IPv4 address of the interface with the best default route. There is exactly one,
	// also on a host with several such routes. Addresses that the host may not send from are none.
	SourceDefaultRouteAddress VariableSource = "DefaultRouteAddress"
	// SourceHostname is the DNS host name without the domain, by which a kubelet calls its node.
	SourceHostname VariableSource = "Hostname"
	// SourceFQDN is the host name with the primary DNS suffix.
	SourceFQDN VariableSource = "FQDN"
	// SourceAWSLocalHostname is local-hostname of the instance metadata service of
	// AWS, requested with a session token (IMDSv2).
	SourceAWSLocalHostname VariableSource = "AWSLocalHostname"
	// SourceGCPHostname is the host name in the metadata service of GCP: all of it up
	// to 63 characters, else what is before its first dot, else its first 63.
	SourceGCPHostname VariableSource = "GCPHostname"
	// SourceHNSSubnet is the address prefix of the network of HNS.
	SourceHNSSubnet VariableSource = "HNSSubnet"
	// SourceHNSManagementAddress is the address of the host in the network of HNS.
	SourceHNSManagementAddress VariableSource = "HNSManagementAddress"
	// SourceHNSEndpointAddress is the address of the endpoint of HNS.
	SourceHNSEndpointAddress VariableSource = "HNSEndpointAddress"
)

// Variable is a value that stands for $(NAME) in arguments and in files. When the value
// changes, everything that refers to it has changed.
type Variable struct {
	// Name in capitals, digits and underscores.
	Name   string         `json:"name"`
	Source VariableSource `json:"source"`
	// Value of the variable. Set for SourceValue only.
	Value string `json:"value,omitempty"`
	// Preferred are IPv4 addresses for SourceDefaultRouteAddress, those by which the host is known.
	Preferred []string `json:"preferred,omitempty"`
	// Network is the network of HNS that the value is about, for the sources that
	// need one. If it does not exist yet, it is waited for: a service creates it.
	Network string `json:"network,omitempty"`
}

// reference matches $(NAME), and $$( which stands for a literal $(.
var reference = regexp.MustCompile(`\$?\$\(([A-Z][A-Z0-9_]*)\)`)

// variableName matches the name of a variable.
var variableName = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)

// Expand replaces each $(NAME) in text by the value of the variable. Values are not
// expanded again. $$(NAME) becomes $(NAME). It is an error when a variable has no
// value, so that no program ever starts with the name in place of the value.
func Expand(text string, values map[string]string) (string, error) {
	var missing string
	expanded := reference.ReplaceAllStringFunc(text, func(found string) string {
		if found[1] == '$' {
			return found[1:]
		}
		name := found[2 : len(found)-1]
		value, ok := values[name]
		if !ok && missing == "" {
			missing = name
		}
		return value
	})
	if missing != "" {
		return "", fmt.Errorf("variable %s has no value", missing)
	}
	return expanded, nil
}

// References returns the names of the variables in text, in the order in which they stand there.
func References(text string) []string {
	var names []string
	for _, found := range reference.FindAllString(text, -1) {
		if found[1] != '$' {
			names = append(names, found[2:len(found)-1])
		}
	}
	return names
}
