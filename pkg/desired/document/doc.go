// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package document builds the desired configuration of a host: the document that the agent
// applies, from the payload, the cluster, the pool, the instance and its Node.
//
// [Build] does all of it; the parts that others need, too, are exported: the services as the
// Windows Machine Config Operator (WMCO) publishes them, the configuration of the kubelet,
// registries, rotation of logs. Everything is a pure function of its inputs: no I/O, no
// clients, no clock, nothing random. The same inputs give the same document and so the same
// revision.
//
// It is one package because the parts share the paths and services of a host: a file says
// which services a change of it restarts.
//
// The package may import pkg/agent/api for the name of its service, its package config,
// which has the types of the document, and pkg/wmco, which has the names of WMCO.
package document
