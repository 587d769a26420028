// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package conformance proves on a Windows host, over SSH and with the agent's real build,
// that Windows does what the configuration of hosts relies on: services, files and who may
// read them, the registry, certificate stores, the firewall, features, the event log,
// processes that are killed. What the agent did is looked at by the tools of Windows
// wherever there is one, not by the agent.
//
// It runs against any host that can be spared for some minutes:
//
//	make conformance HOST=Administrator@192.0.2.7 KEY=key.pem
//
// The host must not be a node, because a host has one configuration. Everything is taken
// off it again; no feature is turned on, and it is restarted only if that is allowed.
//
// With the other tests it runs against a Wine host. What Wine lacks is in the table
// [MissingInWine]: those checks are skipped there, by the name of the API, and one that
// succeeds all the same is a failure, so that the table stays true.
package conformance
