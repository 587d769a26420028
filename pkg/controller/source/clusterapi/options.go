// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package clusterapi

import (
	"fmt"
	"strings"

	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/controller/internal/capi"
)

// Machines are the Machines of Cluster API that are those of this very cluster.
type Machines = capi.Machines

// Options configure the controllers.
type Options struct {
	// Cluster is the Cluster that this very cluster is. Empty: on OpenShift the one of its infrastructure name in openshift-cluster-api,
	// and elsewhere none, so that Cluster API is no source.
	Cluster client.ObjectKey
	// Recorder takes the events. Required.
	Recorder record.EventRecorder
	// Machines is told which Machines those of this cluster are. Required.
	Machines *Machines
}

// ParseCluster reads the name of a Cluster as NAMESPACE/NAME. Empty is none.
func ParseCluster(text string) (client.ObjectKey, error) {
	if text == "" {
		return client.ObjectKey{}, nil
	}
	namespace, name, found := strings.Cut(text, "/")
	if !found || len(utilvalidation.IsDNS1123Label(namespace)) > 0 || len(utilvalidation.IsDNS1123Subdomain(name)) > 0 {
		return client.ObjectKey{}, fmt.Errorf("%q is not NAMESPACE/NAME of a Cluster", text)
	}
	return client.ObjectKey{Namespace: namespace, Name: name}, nil
}
