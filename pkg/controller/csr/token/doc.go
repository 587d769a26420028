// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package token makes the credentials by which one host joins the cluster:
// bootstrap tokens, as kubeadm has them, of which each host gets its own for at most an hour.
//
// A token is a Secret in kube-system that the API server reads itself. Whoever has it is a
// user system:bootstrap:<id> in [Group], and should be allowed nothing but what ClusterRole
// system:node-bootstrapper has. It is also in the group [GroupOf] of its instance, which has the
// UID of that: so a request that is made with a token says whose it is, in the words of the API
// server.
//
// Secrets are created and deleted, never read: whoever may read one Secret of kube-system may
// read those of others, too. So a token is known only to the process that made it. Another one
// replaces it, or revokes it by its name, which follows from the instance; what authenticates is
// random. A token that nobody revokes expires within the hour. kube-controller-manager deletes
// it then if its controller token-cleaner runs, as kubeadm has it; elsewhere the Secret stays and
// lets nobody in.
//
// The name of another Secret could be the same by chance, one in two billion. The
// ValidatingAdmissionPolicy windows-controller-bootstrap-tokens keeps that one.
//
// The package must not import a controller, nor anything else of this module but the API.
package token
