// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package apiserver

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	scaleapi "k8s.io/client-go/scale/scheme"
	"k8s.io/client-go/scale/scheme/autoscalingv1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/install"
)

var (
	// Scheme knows every type that the server reads or writes.
	Scheme = newScheme()
	// Codecs encode and decode them.
	Codecs = serializer.NewCodecFactory(Scheme)
	// ParameterCodec decodes query parameters. The one of meta/v1 would refuse our
	// own options types.
	ParameterCodec = runtime.NewParameterCodec(Scheme)
)

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	// The scale of a pool speaks the version that kubectl and autoscalers do.
	utilruntime.Must(scaleapi.AddToScheme(scheme))
	utilruntime.Must(autoscalingv1.AddToScheme(scheme))
	// Every server answers with these, whatever its groups.
	unversioned := schema.GroupVersion{Version: "v1"}
	metav1.AddToGroupVersion(scheme, unversioned)
	scheme.AddUnversionedTypes(unversioned,
		&metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	return scheme
}
