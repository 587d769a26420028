// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package apiservice

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/notfound"
)

// ServiceName is that of the Service in front of our API server.
const ServiceName = "windows-apiserver"

const (
	servicePort = 443
	// Where our group comes in discovery, as for every API that is not part of Kubernetes.
	groupPriorityMinimum, versionPriority = 2000, 15
	// injectAnnotation has OpenShift's service CA write its bundle into spec.caBundle.
	injectAnnotation = "service.beta.openshift.io/inject-cabundle"
)

// Create makes the APIService that leads to our Service in the namespace own, if there is none.
// caBundle verifies the certificate of our server; nil leaves that to OpenShift's service CA. An
// [ElsewhereError] says that there is one which leads elsewhere.
//
// It is applied on the server, because the right to create can be given for one name only then. It
// never takes a field from an installation in another namespace, which has another manager. One that an earlier
// installation of ours wrote an authority of its own into is given to the service CA again, if that is to verify our certificate now.
func Create(ctx context.Context, client dynamic.Interface, own string, caBundle []byte) error {
	if found, err := get(ctx, client); found != nil || err != nil {
		if err == nil {
			err = elsewhere(found, own)
		}
		if err == nil && caBundle == nil && wroteBundle(found) {
			return delegate(ctx, client, found)
		}
		return err
	}
	spec := map[string]any{
		"group": v1alpha1.SchemeGroupVersion.Group, "version": v1alpha1.SchemeGroupVersion.Version,
		"groupPriorityMinimum": int64(groupPriorityMinimum), "versionPriority": int64(versionPriority),
		"service": map[string]any{"name": ServiceName, "namespace": own, "port": int64(servicePort)},
	}
	metadata := map[string]any{"name": Name}
	if caBundle != nil {
		spec["caBundle"] = base64.StdEncoding.EncodeToString(caBundle)
	} else {
		metadata["annotations"] = map[string]any{injectAnnotation: "true"}
	}
	created := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": Resource.GroupVersion().String(), "kind": "APIService", "metadata": metadata, "spec": spec,
	}}
	if _, err := client.Resource(Resource).Apply(ctx, Name, created, metav1.ApplyOptions{FieldManager: ServiceName + "." + own}); err != nil {
		return fmt.Errorf("creating APIService %s: %w", Name, err)
	}
	return nil
}

// Delegate has OpenShift's service CA say what verifies our certificate, if a server of ours that serves one of its own has written that. While servers
// are replaced by such that leave it to the service CA, the former ones write theirs for as long as they are there.
func Delegate(ctx context.Context, client dynamic.Interface, own string) error {
	found, err := get(ctx, client)
	if err != nil || found == nil || elsewhere(found, own) != nil || !wroteBundle(found) {
		return err
	}
	return delegate(ctx, client, found)
}

// wroteBundle says whether spec.caBundle of an APIService is what our server wrote, and not what an administrator or another
// program did.
func wroteBundle(found *unstructured.Unstructured) bool {
	return slices.ContainsFunc(found.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		ours := entry.Manager == ServiceName || strings.HasPrefix(entry.Manager, ServiceName+".")
		return ours && entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.GetRawString(), `"f:caBundle"`)
	})
}

// delegate has OpenShift's service CA say what verifies our certificate.
func delegate(ctx context.Context, client dynamic.Interface, found *unstructured.Unstructured) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": found.GetResourceVersion(), "annotations": map[string]any{injectAnnotation: "true"}},
		"spec":     map[string]any{"caBundle": nil},
	})
	if err != nil {
		return fmt.Errorf("encoding the change: %w", err)
	}
	if _, err := client.Resource(Resource).Patch(ctx, Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: ServiceName}); err != nil {
		return fmt.Errorf("having the service CA write caBundle of APIService %s: %w", Name, err)
	}
	return nil
}

// Trust has kube-apiserver verify the certificate of our server with caBundle, if the APIService leads to the
// namespace own. It says whether it did so already; nobody asks our server through an APIService that is not there.
func Trust(ctx context.Context, client dynamic.Interface, own string, caBundle []byte) (already bool, err error) {
	found, err := get(ctx, client)
	if err != nil {
		return false, err
	}
	if found == nil || elsewhere(found, own) != nil {
		return true, nil //nolint:nilerr // that of another installation is not ours to change
	}
	encoded, _, _ := unstructured.NestedString(found.Object, "spec", "caBundle")
	_, injected := found.GetAnnotations()[injectAnnotation]
	if encoded == base64.StdEncoding.EncodeToString(caBundle) && !injected {
		return true, nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{
			"resourceVersion": found.GetResourceVersion(),
			// Another certificate authority would write its own bundle again.
			"annotations": map[string]any{injectAnnotation: nil},
		},
		"spec": map[string]any{"caBundle": caBundle},
	})
	if err != nil {
		return false, fmt.Errorf("encoding caBundle: %w", err)
	}
	if _, err := client.Resource(Resource).Patch(ctx, Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: ServiceName}); err != nil {
		return false, fmt.Errorf("writing caBundle of APIService %s: %w", Name, err)
	}
	return false, nil
}

// get returns our APIService; nil if there is none.
func get(ctx context.Context, client dynamic.Interface) (*unstructured.Unstructured, error) {
	found, err := client.Resource(Resource).Get(ctx, Name, metav1.GetOptions{})
	switch {
	case notfound.Object(err):
		return nil, nil //nolint:nilnil // said above
	case err != nil:
		return nil, fmt.Errorf("reading APIService %s: %w", Name, err)
	}
	return found, nil
}
