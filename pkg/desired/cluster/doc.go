// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package cluster finds out the desired configuration of hosts in this cluster.
//
// [Read] takes a [Snapshot]: it reads everything that is the same for all hosts, and says
// all at once what is missing there. [Snapshot.Build] answers for one host after the other,
// without any I/O. The decision itself is that of pkg/desired/document; this package knows
// only where its inputs come from:
//
//   - in every cluster: ConfigMap kube-root-ca.crt in the namespace of the operator,
//     ConfigMap kube-system/extension-apiserver-authentication, ServiceCIDR kubernetes;
//   - in a cluster of kubeadm: ConfigMaps kube-public/cluster-info and
//     kube-system/kubeadm-config, Service kube-system/kube-dns;
//   - in OpenShift: Infrastructure, Network and what the network operator has applied of it, Proxy, Image,
//     mirror sets, the pull secret, and of the Machine Config Operator its ControllerConfig and what MachineConfigPool worker has;
//   - the Secret with the key of digests, see [EnsureDigestKey].
//
// [Source] keeps a snapshot current for the controllers, by watching what it was made of, [Live]
// takes one each time for dry runs. An [Issuer] makes what hosts join with.
//
// The package must not import a controller, what reaches hosts, nor the packages that
// serve the API.
package cluster
