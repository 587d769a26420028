// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"bytes"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/desired/document"
)

// bundle says where the certificates of authorities come from.
type bundle struct {
	// whose authorities these are, as the end of "the authorities …".
	whose string
	// where they are: the object and its key.
	where string
	// remedy says what to do about those that cannot be used.
	remedy string
	// ofProxy: hosts must not get the proxy before the authorities that it needs.
	ofProxy bool
}

// usable returns the certificates of a bundle that can be used, and warns of the others. Nil: there are none, and
// why says it.
func (r *reader) usable(b bundle, data []byte) (usable []byte, why string) {
	usable, damaged := document.UsableCertificates(data)
	switch {
	case usable != nil:
		for _, problem := range damaged {
			r.warnings = append(r.warnings, fmt.Sprintf("%s: %s; %s", b.where, problem, b.remedy))
		}
		return usable, ""
	case len(damaged) > 0:
		return nil, fmt.Sprintf("%s has no certificate that can be used (%s)", b.where, strings.Join(damaged, ", "))
	default:
		return nil, b.where + " has no certificate in PEM"
	}
}

// require returns the certificates of a bundle that no host can be a node without.
func (r *reader) require(b bundle, data []byte) []byte {
	if len(data) == 0 {
		remedy := "create " + b.where
		if r.openShift {
			remedy = b.remedy
		}
		r.find("there is no CA of "+b.whose, remedy)
		return nil
	}
	usable, why := r.usable(b, data)
	if usable == nil {
		r.find("the CA of "+b.whose+" cannot be read: "+why, b.remedy)
	}
	return usable
}

// optional returns the certificates of a bundle that hosts can do without that do not have them yet.
func (r *reader) optional(b bundle, data []byte) []byte {
	usable, why := r.usable(b, data)
	switch problem := "hosts cannot be given the authorities " + b.whose + ": " + why; {
	case usable != nil:
	case b.ofProxy:
		r.keep(problem, b.remedy)
	default:
		r.leave(trustedAuthorities, problem, b.remedy)
	}
	return usable
}

// trust adds the certificates of a bundle to those that hosts trust, in a format that has them below a comment. An
// empty bundle adds none.
func (r *reader) trust(format string, b bundle, data []byte) {
	if len(bytes.TrimSpace(data)) == 0 {
		return
	}
	if usable := r.optional(b, data); usable != nil {
		r.cluster.TrustedCA = fmt.Appendf(r.cluster.TrustedCA, format, usable)
	}
}

// requiredBundles returns where the authorities of the API server and of the clients of kubelets are.
func (r *reader) requiredBundles() (ofServer, ofClients bundle) {
	ofServer = bundle{whose: "the API server", where: fmt.Sprintf("ConfigMap %s, or ConfigMap %s/%s", clusterInfoName, r.settings.Namespace, rootCAConfigMap)}
	ofClients = bundle{whose: "the clients of kubelets", where: fmt.Sprintf("ConfigMap %s/%s, key %s", metav1.NamespaceSystem, authenticationConfigMap, clientCAKey)}
	ofServer.remedy, ofClients.remedy = "correct "+ofServer.where, "correct "+ofClients.where
	if r.openShift {
		ofServer.where = fmt.Sprintf("ConfigMap %s/%s, key %s of its binaryData", machineConfigNamespace, bootstrapCAConfigMap, trustedCAKey)
		ofServer.remedy = "it comes from ConfigMap openshift-config-managed/kube-apiserver-server-ca: oc get clusteroperator kube-apiserver machine-config"
		ofClients.where = fmt.Sprintf("ControllerConfig %s, spec.kubeAPIServerServingCAData", controllerConfigName)
		ofClients.remedy = fmt.Sprintf("it comes from ConfigMap openshift-config-managed/kube-apiserver-client-ca, key %s: oc get clusteroperator kube-apiserver machine-config", trustedCAKey)
	}
	return ofServer, ofClients
}
