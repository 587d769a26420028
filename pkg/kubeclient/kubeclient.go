// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package kubeclient makes clients for what the cluster has itself. It imports nothing of this project.
package kubeclient

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// New makes a client whose objects are sent in the format that is read with the least effort: there may be thousands of Nodes and pods.
func New(config *rest.Config) (kubernetes.Interface, error) {
	config = rest.CopyConfig(config)
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	return kubernetes.NewForConfig(config)
}
