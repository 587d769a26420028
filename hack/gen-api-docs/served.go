// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/apiserver"
	"github.com/openshift/windows-instance-api/pkg/generated/openapi"
)

// served are the resources and subresources that the API server installs, by its own discovery. The server
// has no storage and is not started.
func served() ([]metav1.APIResource, error) {
	config := genericapiserver.NewRecommendedConfig(apiserver.Codecs)
	config.ExternalAddress = "localhost:443"
	config.LoopbackClientConfig = &rest.Config{}
	config.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	config.Authentication.Authenticator = anonymous.NewAuthenticator(nil)
	config.Authorization.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(openapi.GetOpenAPIDefinitions, openapinamer.NewDefinitionNamer(apiserver.Scheme))
	config.RESTOptionsGetter = nowhere{}
	server, err := (&apiserver.Config{Generic: config}).New()
	if err != nil {
		return nil, err
	}
	defer server.Destroy()
	answer := httptest.NewRecorder()
	path := "/apis/" + v1alpha1.SchemeGroupVersion.String()
	server.Handler.Director.ServeHTTP(answer, httptest.NewRequestWithContext(context.Background(), http.MethodGet, path, http.NoBody))
	var list metav1.APIResourceList
	if err := json.Unmarshal(answer.Body.Bytes(), &list); err != nil {
		return nil, fmt.Errorf("discovery of %s answers with %d: %w", path, answer.Code, err)
	}
	return list.APIResources, nil
}

// nowhere is the storage of a server that is only asked what it serves.
type nowhere struct{}

// GetRESTOptions implements [generic.RESTOptionsGetter].
func (nowhere) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	encoding := apiserver.Codecs.LegacyCodec(v1alpha1.SchemeGroupVersion)
	return generic.RESTOptions{
		StorageConfig:  storagebackend.NewDefaultConfig("", encoding).ForResource(resource),
		ResourcePrefix: resource.String(),
		Decorator: func(*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error), func() runtime.Object, func() runtime.Object,
			storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
			return nil, func() {}, nil
		},
	}, nil
}
