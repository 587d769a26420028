// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package options has the flags about reaching hosts, which the API server and the
// controller have in common: where the credentials are, which addresses hosts may have, and
// how connections to them are made.
//
// It is apart from pkg/host, which is also used without flags. It must not import a
// controller nor the packages that serve the API.
package options

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// Options are the values of the flags.
type Options struct {
	// Namespace is that of the operator.
	Namespace string
	// PrivateKeySecret is the Secret in Namespace with the cluster-wide key.
	PrivateKeySecret string
	// AgentDir has the builds of the agent.
	AgentDir string
	// AllowedHostCIDRs open ranges of addresses that are refused by default.
	AllowedHostCIDRs []string
	// RefusedHostCIDRs close further ranges.
	RefusedHostCIDRs []string
	// DialTimeout is how long a host gets to answer at each step of a connection.
	DialTimeout time.Duration
	// MaxHostConnections is how many SSH connections are open at one time.
	MaxHostConnections int
}

// New returns the defaults.
func New() *Options {
	return &Options{
		Namespace:          wmco.Namespace,
		PrivateKeySecret:   wmco.PrivateKeySecret,
		AgentDir:           "/usr/share/windows-instance-api/agent",
		DialTimeout:        10 * time.Second,
		MaxHostConnections: 1024,
	}
}

// AddFlags adds the flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Namespace, "namespace", o.Namespace, "Namespace of the operator, with the cluster-wide key.")
	fs.StringVar(&o.PrivateKeySecret, "private-key-secret", o.PrivateKeySecret, "Name of the Secret with the cluster-wide key, under private-key.pem.")
	fs.StringVar(&o.AgentDir, "agent-dir", o.AgentDir, "Directory with windows-node-agent.exe, which is put on hosts.")
	fs.StringSliceVar(&o.AllowedHostCIDRs, "allowed-host-cidrs", o.AllowedHostCIDRs, "Address ranges in which hosts may be although they are refused by default: loopback, link-local, multicast and unspecified, metadata services of clouds, this process itself, and of the cluster the API server, the networks of Services and pods, and Linux Nodes.")
	fs.StringSliceVar(&o.RefusedHostCIDRs, "refused-host-cidrs", o.RefusedHostCIDRs, "Further address ranges in which no host may be. It wins over --allowed-host-cidrs.")
	fs.DurationVar(&o.DialTimeout, "dial-timeout", o.DialTimeout, "How long a host gets to answer: once for the TCP connection, once for the SSH handshake, once for logging in, and once for starting each command.")
	fs.IntVar(&o.MaxHostConnections, "max-host-connections", o.MaxHostConnections, "How many SSH connections are open at one time. One namespace gets three quarters of them at most.")
}

// Validate returns everything that is wrong, each with its flag.
func (o *Options) Validate() []error {
	var errs []error
	if info, err := os.Stat(o.AgentDir); err != nil {
		errs = append(errs, fmt.Errorf("--agent-dir: %w", err))
	} else if !info.IsDir() {
		errs = append(errs, fmt.Errorf("--agent-dir: %s is not a directory", o.AgentDir))
	}
	if _, err := o.addressRules(); err != nil {
		errs = append(errs, err)
	}
	if o.DialTimeout <= 0 {
		errs = append(errs, errors.New("--dial-timeout: must be greater than 0"))
	}
	if o.MaxHostConnections < 1 {
		errs = append(errs, fmt.Errorf("--max-host-connections: %d is less than 1", o.MaxHostConnections))
	}
	return errs
}

// addressRules returns AllowedHostCIDRs and RefusedHostCIDRs in the form that programs use.
func (o *Options) addressRules() (host.AddressRules, error) {
	return host.ParseAddressRules(o.AllowedHostCIDRs, o.RefusedHostCIDRs)
}

// Connections returns the options of connections to hosts, with the policy about their addresses,
// to which those of this process belong, and what cluster says of others; see package networks. Pools that are made with
// the same options remember together which bastions refuse a login, so a program asks for them once.
func (o *Options) Connections(cluster func(netip.Addr) (string, error)) (ssh.Options, error) {
	rules, err := o.addressRules()
	if err != nil {
		return ssh.Options{}, err
	}
	ours, err := host.OurAddresses()
	if err != nil {
		return ssh.Options{}, err
	}
	return ssh.Options{
		DialTimeout:      o.DialTimeout,
		HandshakeTimeout: o.DialTimeout,
		MaxConns:         o.MaxHostConnections,
		AllowAddress:     rules.Policy(ours, cluster),
		Refusals:         host.NewRefusals(time.Now),
	}, nil
}

// Agents reads the builds of the agent.
func (o *Options) Agents() (*agentclient.Bundle, error) {
	agents, err := agentclient.LoadBundle(o.AgentDir)
	if err != nil {
		return nil, fmt.Errorf("--agent-dir: %w", err)
	}
	return agents, nil
}

// ClusterCredentials names the Secret with the cluster-wide key.
func (o *Options) ClusterCredentials() types.NamespacedName {
	return types.NamespacedName{Namespace: o.Namespace, Name: o.PrivateKeySecret}
}
