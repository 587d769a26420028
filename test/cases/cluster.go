// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	ignition "github.com/coreos/ignition/v2/config/v3_5/types"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/vincent-petithory/dataurl"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/openshift/windows-instance-api/pkg/desired/cluster"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/desired/machineconfig"
	"github.com/openshift/windows-instance-api/test/openshift"
)

// clusterConfig runs a file that is one object, each member about the configuration of a
// cluster.
func clusterConfig(file []byte) ([]result, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(file, &members); err != nil {
		return nil, fmt.Errorf("the file is no object: %w", err)
	}
	var results []result
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if r, isMissing := missingMember("cluster-config", name); isMissing {
			results = append(results, r)
			continue
		}
		found, err := clusterMember(name, members[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		results = append(results, found...)
	}
	return results, nil
}

type clusterDNSCase struct {
	ServiceCIDR string `json:"serviceCIDR"`
}

func clusterMember(name string, value json.RawMessage) ([]result, error) {
	switch name {
	case "clusterDNS":
		return eachOf(name, value, func(c clusterDNSCase) result { return outcome(document.ClusterDNS(c.ServiceCIDR)) })
	case "network":
		return eachOf(name, value, network)
	case "kubeVersionGate(base v1.36)":
		return eachOf(name, value, versionOfServer)
	default:
		return nil, errors.New("the member is not known")
	}
}

type versionCase struct {
	GitVersion string `json:"gitVersion"`
}

// versionOfServer says what hosts of a cluster say of the version of its API server. The error is a warning: they are configured.
func versionOfServer(c versionCase) result {
	version, err := utilversion.ParseGeneric(c.GitVersion)
	if err != nil {
		return result{Error: err.Error()}
	}
	return result{Error: cluster.Untested(cluster.Servers{Lowest: version})}
}

type networkCase struct {
	NetworkType string `json:"networkType"`
	// MergePatch is of the operator's Network, which has no hybrid overlay before it.
	MergePatch     string   `json:"operatorNetworkMergePatch"`
	ServiceNetwork []string `json:"serviceNetwork"`
}

// network reads a cluster with the networks of a case. The error is what a cluster whose networks are usual does
// not have.
func network(c networkCase) result {
	usual, err := problems(func([]client.Object) {}, "")
	if err != nil {
		return result{Error: err.Error()}
	}
	found, err := problems(func(objects []client.Object) {
		for _, object := range objects {
			switch o := object.(type) {
			case *configv1.Network:
				o.Spec.NetworkType, o.Status.NetworkType = c.NetworkType, c.NetworkType
				o.Spec.ServiceNetwork, o.Status.ServiceNetwork = c.ServiceNetwork, c.ServiceNetwork
			case *operatorv1.Network:
				o.Spec.DefaultNetwork.OVNKubernetesConfig = nil
			}
		}
	}, c.MergePatch)
	if err != nil {
		return result{Error: err.Error()}
	}
	return result{Error: strings.Join(slices.DeleteFunc(found, func(p string) bool { return slices.Contains(usual, p) }), "; ")}
}

// problems are what keeps hosts of a cluster from being configured, after its objects were changed and the
// operator's Network patched.
func problems(change func([]client.Object), networkPatch string) ([]string, error) {
	objects, err := (openshift.Cluster{Platform: configv1.NonePlatformType, ServiceNetwork: "172.30.0.0/16", DNS: "172.30.0.10"}).Objects()
	if err != nil {
		return nil, err
	}
	change(objects)
	ctx := context.Background()
	c, err := clusterOf(objects)
	if err != nil {
		return nil, err
	}
	if networkPatch != "" {
		network := &operatorv1.Network{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
		if err := c.Patch(ctx, network, client.RawPatch(types.MergePatchType, []byte(networkPatch))); err != nil {
			return nil, fmt.Errorf("patching the Network: %w", err)
		}
	}
	_, err = cluster.Read(ctx, c, cluster.Settings{Namespace: metav1.NamespaceDefault})
	input, ok := errors.AsType[*cluster.InputError](err)
	if !ok {
		return nil, err
	}
	var found []string
	for _, f := range input.Findings {
		found = append(found, f.Problem)
	}
	return found, nil
}

// clusterOf returns a client of a cluster that has the objects.
func clusterOf(objects []client.Object) (client.Client, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, cluster.AddToScheme, openshift.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(), nil
}

type kubeletArgumentsCase struct {
	Unit string `json:"kubeletUnit"`
}

// ignitionKubeletArgs reads the arguments of the kubelet that hold for Windows, too.
func ignitionKubeletArgs(c kubeletArgumentsCase) result {
	config := ignition.Config{Ignition: ignition.Ignition{Version: ignition.MaxVersion.String()}}
	// Each worker has both files.
	for path, content := range map[string]string{"/etc/kubernetes/kubelet.conf": "{}", "/etc/kubernetes/cloud.conf": "{}"} {
		source := dataurl.EncodeBytes([]byte(content))
		config.Storage.Files = append(config.Storage.Files, ignition.File{
			Node: ignition.Node{Path: path}, FileEmbedded1: ignition.FileEmbedded1{Contents: ignition.Resource{Source: &source}},
		})
	}
	config.Systemd.Units = []ignition.Unit{{Name: "kubelet.service", Contents: &c.Unit}}
	raw, err := json.Marshal(config)
	if err != nil {
		return result{Error: err.Error()}
	}
	worker, err := machineconfig.Parse(raw)
	if err != nil {
		return result{Error: err.Error()}
	}
	arguments := map[string]string{}
	if worker.CloudProvider != nil {
		arguments["cloud-provider"] = *worker.CloudProvider
	}
	if worker.CloudConfigPath != "" {
		arguments["cloud-config"] = worker.CloudConfigPath
	}
	return result{Output: arguments}
}
