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
	// takeOver means that it was made by WMCO, which is gone and so are its nodes, or does not run and has left another key in it.
	takeOver action = "was taken over from the Windows Machine Config Operator, which does not run"
	// leaveToWMCO means that it is that of WMCO, which may come back, and new Machines get the key from it.
	leaveToWMCO action = "leave to WMCO"
	// leaveCompromised means that it is that of WMCO, which may come back, and new Machines get a compromised key from it.
	leaveCompromised action = "leave, although its key is compromised"
	// missing means that there is none, and that one of ours would have WMCO delete Machines when it is started again.
	missing action = "missing"
	// leave means that somebody else has made it.
	leave action = "leave"
)

// content is the user data that new Machines are to have, and the key in it, as <type> <base64>.
type content struct {
	script []byte
	key    string
	// first is the first key of the Secret, which WMCO authorizes, in the same form: another one if it is compromised.
	first string
}

// decide says what is done with a Secret, nil for none, that should have this user data. mayReturn says that WMCO, which does not run
// now, may do so again. It compares the Secret with its own user data then, and
// deletes all Machines if there is a difference. It does so for another key, too, so that nothing is lost then. It knows of no
// compromised keys: while the Secret still has the one of its user data as the first key, a person decides what is worse.
func decide(current *corev1.Secret, want content, mayReturn bool) action {
	switch {
	case current == nil && mayReturn:
		return missing
	case current == nil:
		return create
	}
	have := current.Data[wmco.UserDataKey]
	ours, same := current.Labels[managedByLabel] == managedBy, bytes.Equal(have, want.script)
	complete := true
	for _, key := range keysIn(current.Namespace) {
		complete = complete && bytes.Equal(current.Data[key], want.script)
	}
	switch {
	case ours && complete:
		return keep
	case ours || same: // with what we want, it is ours once it has the label
		return repair
	case userdata.IsOfWMCO(have) && mayReturn && authorizes(have, want.key):
		return leaveToWMCO
	case userdata.IsOfWMCO(have) && mayReturn && authorizes(have, want.first):
		return leaveCompromised
	case userdata.IsOfWMCO(have):
		return takeOver
	}
	return leave
}

// keysIn are the keys of the Secret in a namespace that have the user data.
func keysIn(namespace string) []string {
	if namespace == wmco.ClusterAPINamespace {
		return []string{wmco.UserDataKey, wmco.BootstrapDataKey}
	}
	return []string{wmco.UserDataKey}
}

// authorizes says whether user data of WMCO authorizes a key.
func authorizes(script []byte, key string) bool { return bytes.Contains(script, []byte(key)) }

// theirs says what is to be done about a Secret that somebody else has made.
func theirs(key client.ObjectKey) string {
	return fmt.Sprintf("Secret %s was made by somebody else and is left as it is, so hosts with its user data may refuse the key of the operator. "+
		"To have it written: %s", key, makeOurs(key))
}

// makeOurs is the command after which a Secret is one of ours.
func makeOurs(key client.ObjectKey) string {
	return fmt.Sprintf("kubectl label secret %s -n %s %s=%s --overwrite", key.Name, key.Namespace, managedByLabel, managedBy)
}

// keepsCompromised says why new Machines authorize a compromised key of the credentials, and what is to be done. left is what WMCO has left.
func keepsCompromised(key, credentials client.ObjectKey, left string) string {
	return fmt.Sprintf("Secret %s has new Machines authorize the key in private-key.pem of Secret %s, which is said to be compromised. It is not changed beside %s "+
		"of the Windows Machine Config Operator, which would delete all Machines for it when it is started again. To have it changed nevertheless: %s",
		key, credentials, left, makeOurs(key))
}

// notMade says why there is none, and what is to be done. left is what WMCO has left.
func notMade(key client.ObjectKey, left string) string {
	return fmt.Sprintf("Secret %s does not exist, so no new Machines boot. It is not created beside %s of the Windows Machine Config Operator, "+
		"which would delete all Machines for it when it is started again. To have it created, delete the Subscription and the ClusterServiceVersion of that operator, adopt the hosts of all its Nodes "+
		"(kubectl windows adopt), and delete those Nodes whose hosts are gone; or start it again, which creates its own. To have it created nevertheless: kubectl create secret generic %s -n %s && %s",
		key, left, key.Name, key.Namespace, makeOurs(key))
}

// runs says whether WMCO runs, by its Deployment, nil for none. A Deployment whose pods are still ending runs.
func runs(deployment *appsv1.Deployment) bool {
	if deployment == nil {
		return false
	}
	replicas := deployment.Spec.Replicas
	return replicas == nil || *replicas != 0 || deployment.Status.Replicas != 0
}
