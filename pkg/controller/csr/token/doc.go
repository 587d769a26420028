// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package token makes the credentials by which one host joins the cluster:
// bootstrap tokens, as kubeadm has them, of which each host gets its own for at most an hour.
//
// A token is a Secret in kube-system that the API server reads itself. Whoever has it is
// the user system:bootstrap:<id> in the group [Group], and should be allowed nothing
// but what ClusterRole system:node-bootstrapper has. Its id follows from the instance, so
// that it can be found without a list; what authenticates is random.
//
// A Secret of that name that was not made here for the same instance is never touched.
//
// The package must not import a controller, nor anything else of this module but the API.
package token
