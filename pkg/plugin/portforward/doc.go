// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package portforward forwards local ports to ports of a host: one WebSocket for each
// connection, with the protocol v5.channel.k8s.io, in which either side can end what it
// sends and still receive.
package portforward
