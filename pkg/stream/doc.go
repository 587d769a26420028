// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package stream serves the streaming protocols of kubectl inside an API
// server, without a kubelet or a container runtime behind it: exec and port
// forwarding over WebSocket (v5.channel.k8s.io, v4.channel.k8s.io). What runs and what
// is dialed comes in through [Session] and a dial function.
//
// It differs from the servers of k8s.io/cri-streaming in what it takes to run
// inside a long-lived server: every goroutine ends with the request, a client that
// vanished is noticed although nothing is sent to it, a server that stops says so to
// the client, and nothing is buffered without a bound. SPDY cannot be served like that,
// and is not.
//
// It must not import any other package of this module: what a host is, who may do
// what, and how many sessions there may be is decided elsewhere.
package stream
