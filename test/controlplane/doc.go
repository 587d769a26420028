// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

// Package controlplane runs a real Kubernetes control plane on loopback: etcd,
// kube-apiserver and kube-controller-manager as processes of their own, without
// containers. Tests, the demo and benchmarks use it wherever a fake API server
// would prove nothing: aggregation, admission, RBAC, garbage collection,
// certificate signing, and streams through the front proxy.
//
// [Start] takes about four seconds. The binaries come from
// hack/build-controlplane.sh, which takes minutes once and nothing afterwards;
// run it before `go test`, whose default limit is ten minutes.
//
// # Addresses
//
// Every control plane owns one /24 of 127.96.0.0-127.223.255.0, so that any
// number of them run side by side. The lower half is its Service range, the
// processes listen in the upper half. There is no kube-proxy: a server that
// stands behind a Service listens on the Service's own cluster IP
// ([ControlPlane.ServiceIP]), which is a loopback address, and the API server
// reaches it by the Service as it would in production.
//
// # Processes
//
// Every process is ended with the program that started it, also when that is
// killed ([Process] says how). The unexpected death of one is reported by
// [ControlPlane.Failed] and [ControlPlane.Err], with the end of its log.
//
// It is one package because everything belongs to one [ControlPlane] and ends with it: the
// certificates name the addresses of its block, and its processes and the clients of its
// users are made with these certificates. Programs under test are run by [StartProcess]
// too, so that they are ended in the same way.
//
// The package is for Linux only. It is imported by tests, the demo and
// benchmarks, never by product code, and must not import product code: what it
// starts is the world the product lives in.
package controlplane
