// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package document decides what is on a host: from what is shipped, the cluster, the
// pool, the instance and its Node to the document that the agent applies.
//
// [Build] is the whole of it; what it is made of is exported where others need it too:
// the services as the Windows Machine Config Operator (WMCO) publishes them, the
// configuration of the kubelet, registries, rotation of logs. Everything is a pure function
// of its inputs: no I/O, no clients, no clock, nothing random. The same inputs give the same
// document and so the same revision.
//
// The package may import pkg/agent for the name of its service, its package config,
// which has the types of the document, and pkg/wmco, which has the names that must stay.
package document
