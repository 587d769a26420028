// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package userdata keeps the Secret with the user data that MachineSets of Windows name, on clusters of
// OpenShift with a Machine API, and its copy for Cluster API where there is one. What is in it follows the key
// of the operator; package desired/userdata has it.
//
// It leaves the Secret alone while WMCO runs, which deletes Machines because of a change, while that may be started
// again and the key is in its Secret, and when somebody else has made it. Nothing follows from a change for Machines that are there.
//
// The package must not import another controller, nor the packages that serve the API.
package userdata
