// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package openshift gives a cluster the shape of OpenShift: its kinds, the objects that its
// operators render for a platform, and stand-ins that do around us what these operators do, and
// refuse what they refuse.
//
// What is in it is written by the facts of releases 4.16 to 5.1, not copied from them.
package openshift
