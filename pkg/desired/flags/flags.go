// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package flags has the flags for the desired configuration of hosts: what is shipped to them,
// and what cannot be found in the cluster. The controller and the API server share them, so
// that a dry run shows what the controller would do.
//
// It must not import a controller nor the packages that serve the API.
package flags

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"github.com/openshift/windows-instance-api/pkg/desired/cluster"
	"github.com/openshift/windows-instance-api/pkg/desired/payload"
)

// Flags are the values of the flags.
type Flags struct {
	// Payload is a directory or an OCI image layout with what is shipped to hosts, or a directory of several
	// such, of which one is chosen by the version of the API servers. Empty: hosts are watched and not configured.
	Payload string
	// PayloadCache is the directory for what is downloaded or unpacked of the payload. Empty: a
	// temporary directory.
	PayloadCache string
	// APIServerURL is where hosts reach the API server. Empty: that in the cluster.
	APIServerURL string
	// ServiceCIDR is the network of services, or two, separated by a comma. Empty: that in the cluster.
	ServiceCIDR string
	// ClusterDNS is the address of the DNS of the cluster. Empty: that in the cluster.
	ClusterDNS string
}

// AddFlags adds the flags.
func (f *Flags) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&f.Payload, "payload", f.Payload, "Directory or OCI image layout with the programs of a node, as hack/build-payload.sh makes it, or a directory with several of them: hosts get the newest whose kubelet is not newer than the API server. Default: none; hosts are then watched and not configured.")
	fs.StringVar(&f.PayloadCache, "payload-cache-dir", f.PayloadCache, "Directory that keeps what is downloaded or unpacked of the payload. Default: a temporary directory.")
	fs.StringVar(&f.APIServerURL, "api-server-url", f.APIServerURL, "Where hosts reach the API server of the cluster, as https://host:port. Default: what ConfigMap kube-public/cluster-info, or in OpenShift Infrastructure cluster, says.")
	fs.StringVar(&f.ServiceCIDR, "service-cidr", f.ServiceCIDR, "Network of the services of the cluster, or two of different families, separated by a comma. Default: what ConfigMap kube-system/kubeadm-config, ServiceCIDR kubernetes, or in OpenShift Network cluster, says.")
	fs.StringVar(&f.ClusterDNS, "cluster-dns", f.ClusterDNS, "Address of the DNS of the cluster. Default: that of Service kube-system/kube-dns, else the tenth of --service-cidr.")
}

// Validate returns an error for each invalid flag.
func (f *Flags) Validate() []error {
	var errs []error
	add := func(flag, format string, args ...any) {
		errs = append(errs, fmt.Errorf("--"+flag+": "+format, args...))
	}
	directory := func(flag, path string) {
		if path == "" {
			return
		}
		if info, err := os.Stat(path); err != nil {
			add(flag, "%w", err)
		} else if !info.IsDir() {
			add(flag, "%s is not a directory", path)
		}
	}
	directory("payload", f.Payload)
	directory("payload-cache-dir", f.PayloadCache)
	if f.APIServerURL != "" {
		if u, err := url.Parse(f.APIServerURL); err != nil || u.Scheme != "https" || u.Host == "" {
			add("api-server-url", "%q is not of the form https://host:port", f.APIServerURL)
		}
	}
	if f.ServiceCIDR != "" {
		for network := range strings.SplitSeq(f.ServiceCIDR, ",") {
			if _, err := netip.ParsePrefix(network); err != nil {
				add("service-cidr", "%q is not a network, for example 10.96.0.0/12", network)
			}
		}
	}
	if f.ClusterDNS != "" {
		if _, err := netip.ParseAddr(f.ClusterDNS); err != nil {
			add("cluster-dns", "%q is not an address, for example 10.96.0.10", f.ClusterDNS)
		}
	}
	return errs
}

// Open opens the payloads. It is nil when there is none. The caller closes it.
func (f *Flags) Open(ctx context.Context) (*payload.Set, error) {
	if f.Payload == "" {
		return nil, nil //nolint:nilnil // no payload is an ordinary answer
	}
	if err := payload.RemoveLeftovers(f.PayloadCache); err != nil {
		klog.FromContext(ctx).Error(err, "Something stays in the cache of the payload")
	}
	set, err := payload.OpenSet(ctx, f.Payload, payload.Options{CacheDir: f.PayloadCache})
	if err != nil {
		return nil, fmt.Errorf("--payload: %w", err)
	}
	var names []string
	for _, p := range set.Payloads() {
		names = append(names, p.Path)
	}
	if err := cluster.CheckPayloads(manifests(set), names); err != nil {
		return nil, errors.Join(fmt.Errorf("--payload %s: %w", f.Payload, err), set.Close())
	}
	return set, nil
}

func manifests(set *payload.Set) []*payload.Manifest {
	var all []*payload.Manifest
	for _, p := range set.Payloads() {
		all = append(all, &p.Manifest)
	}
	return all
}

// Settings returns the settings from the flags. The flags must be valid, and set open.
func (f *Flags) Settings(set *payload.Set, agentPath, namespace string) cluster.Settings {
	s := cluster.Settings{
		Payloads: manifests(set), AgentPath: agentPath, Namespace: namespace,
		APIServerURL: f.APIServerURL, ServiceCIDR: f.ServiceCIDR,
	}
	if f.ClusterDNS != "" {
		s.ClusterDNS = netip.MustParseAddr(f.ClusterDNS)
	}
	return s
}
