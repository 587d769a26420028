// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package api is the protocol between the agent and the servers that start it over SSH:
// what is asked and answered in JSON, and nothing that does it. The document, which says
// how a host is to be configured, is in api/config.
//
// It is all that servers import of the agent. It imports the standard library only.
package api
