// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package api is the protocol between the agent and the servers that start it over SSH:
// requests and answers in JSON, and nothing that serves them. The document, the
// desired configuration of a host, is in api/config.
//
// It is all that servers import of the agent. It imports the standard library only.
package api
