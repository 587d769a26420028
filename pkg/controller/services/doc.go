// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package services publishes the services of hosts as the Windows Machine Config Operator
// (WMCO) does: in the immutable ConfigMap windows-services-<version> in the namespace of the
// controller. Tools read it, and find the version of a Node in its annotations; no program of
// this project does.
//
// As the ConfigMap is immutable, one with other content is deleted and recreated. Those of
// other versions are removed when no Node has the version any more, if they are ours, which
// a label says. While WMCO runs, nothing is published and nothing removed: WMCO removes the
// ConfigMaps of all versions that no Node has, whoever made them, and its daemons go through
// all services of their hosts for each one that comes or goes.
//
// The package must not import another controller, nor the packages that serve the API, nor
// those that speak to hosts.
package services
