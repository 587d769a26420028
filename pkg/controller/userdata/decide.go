// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package userdata

import (
	"bytes"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/desired/userdata"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// managedByLabel with the value managedBy is on the Secrets that are ours.
const (
	managedByLabel = "app.kubernetes.io/managed-by"
	managedBy      = "windows-controller"
)

// action is what is done with a Secret, and why. The texts follow its namespace and name.
type action string

const (
	// keep means that it is as it should be.
	keep action = ""
	// create means that there is none.
	create action = "was created"
	// repair means that it was ours, and is not what it should be: somebody has changed it, or the key has changed.
	repair action = "has the user data of the current key again"
	// takeOver means that it was made by WMCO, which does not run.
	takeOver action = "was taken over from the Windows Machine Config Operator, which does not run"
	// leave means that somebody else has made it.
	leave action = "leave"
)

// decide says what is done with a Secret, nil for none, that should have this user data.
func decide(current *corev1.Secret, want []byte) action {
	if current == nil {
		return create
	}
	have := current.Data[wmco.UserDataKey]
	ours, same := current.Labels[managedByLabel] == managedBy, bytes.Equal(have, want)
	switch {
	case ours && same:
		return keep
	case ours || same: // with what we want, it is ours once it has the label
		return repair
	case userdata.IsOfWMCO(have):
		return takeOver
	}
	return leave
}

// theirs says what is to be done about a Secret that somebody else has made.
func theirs(key client.ObjectKey) string {
	return fmt.Sprintf("Secret %s was made by somebody else and is left as it is, so hosts with its user data may refuse the key of the operator. "+
		"To have it written: kubectl label secret %s -n %s %s=%s --overwrite", key, key.Name, key.Namespace, managedByLabel, managedBy)
}

// runs says whether WMCO runs, by its Deployment, nil for none. A Deployment whose pods are still ending runs.
func runs(deployment *appsv1.Deployment) bool {
	if deployment == nil {
		return false
	}
	replicas := deployment.Spec.Replicas
	return replicas == nil || *replicas != 0 || deployment.Status.Replicas != 0
}
