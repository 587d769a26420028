// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package main

import (
	"context"
	"path"
	"strings"

	ignition "github.com/coreos/ignition/v2/config/v3_5/types"
	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/cluster"
	"github.com/openshift/windows-instance-api/pkg/desired/payload"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/test/openshift"
)

type registryAuthoritiesCase struct {
	File string `json:"file"`
	Data string `json:"data"`
}

// registryAuthorities returns what the authorities of a registry add to what hosts trust.
func registryAuthorities(c registryAuthoritiesCase) result {
	return result{Output: cluster.RegistryAuthorities(mcfgv1.ImageRegistryBundle{File: c.File, Data: []byte(c.Data)})}
}

type ignitionFilesCase struct {
	// Files of the workers of a cluster on AWS, by path, as data URLs.
	Files map[string]string `json:"ignitionFiles"`
}

// ignitionFiles configures a host of a cluster whose workers have the files of a case. The output are the files of
// the host that it has because of them: those that are others where the workers have only what all have.
func ignitionFiles(c ignitionFilesCase) result {
	before, err := hostFiles(nil)
	if err != nil {
		return result{Error: err.Error()}
	}
	after, err := hostFiles(c.Files)
	if err != nil {
		return result{Error: err.Error()}
	}
	files := map[string]string{}
	for path, content := range after {
		if content != before[path] {
			files[path] = content
		}
	}
	return result{Output: files}
}

// authority is one that can be parsed; which one says nothing of a case.
var authority = func() []byte {
	authority, _, err := certutil.GenerateSelfSignedCertKey("cases", nil, nil)
	if err != nil {
		panic(err)
	}
	return authority
}()

// haveRendered gives all MachineConfigs of a cluster that were rendered for workers the configuration of one.
func haveRendered(objects []client.Object, worker openshift.Worker) error {
	raw, err := worker.Ignition()
	if err != nil {
		return err
	}
	for _, object := range objects {
		if config, ok := object.(*mcfgv1.MachineConfig); ok && strings.HasPrefix(config.Name, "rendered-worker-") {
			config.Spec.Config.Raw = raw
		}
	}
	return nil
}

// hostFiles are the files, by path, that are configured on a host of AWS whose cluster has workers with these files.
// The kubelets there name the configuration of the credential provider, and that of the cloud if there is one, as before
// release 4.16.
func hostFiles(sources map[string]string) (map[string]string, error) {
	const platform = configv1.AWSPlatformType
	_, hasCloudConfig := sources["/etc/kubernetes/cloud.conf"]
	worker := openshift.Worker{Platform: platform, CloudConfigFlag: hasCloudConfig, ExtraFiles: map[string]ignition.Resource{}}
	for path, source := range sources {
		worker.ExtraFiles[path] = ignition.Resource{Source: &source}
	}
	objects, err := (openshift.Cluster{
		Platform: platform, APIServerURL: "https://api-int.c.example.com:6443", APIServerCA: authority, ClientCA: authority,
		ServiceNetwork: "172.30.0.0/16", DNS: "172.30.0.10",
	}).Objects()
	if err != nil {
		return nil, err
	}
	if err := haveRendered(objects, worker); err != nil {
		return nil, err
	}
	c, err := clusterOf(append(objects, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: cluster.DigestKeySecret}, Data: map[string][]byte{"key": make([]byte, 32)},
	}))
	if err != nil {
		return nil, err
	}
	snapshot, err := cluster.Read(context.Background(), c, cluster.Settings{Namespace: metav1.NamespaceDefault, Payloads: []*payload.Manifest{programs(platform)}})
	if err != nil {
		return nil, err
	}
	built, err := snapshot.Build(cluster.Host{Instance: &v1alpha1.WindowsInstance{}})
	if err != nil {
		return nil, err
	}
	return contents(built.Bundle), nil
}

// contents are those of the files that are not programs.
func contents(bundle config.Bundle) map[string]string {
	files := map[string]string{}
	for i := range bundle.Document.Files {
		switch f := &bundle.Document.Files[i]; {
		case f.Source.Secret != "":
			files[f.Path] = string(bundle.Secrets[f.Source.Secret])
		case f.Source.Text != nil:
			files[f.Path] = *f.Source.Text
		}
	}
	return files
}

// programs is a payload that has all programs of a platform.
func programs(platform configv1.PlatformType) *payload.Manifest {
	m := &payload.Manifest{SchemaVersion: payload.SchemaVersion, Name: "cases", Version: "1", OS: "windows", Architecture: "amd64"}
	for _, f := range wmco.PayloadFiles(platform) {
		if !strings.HasSuffix(f.Source, ".exe") {
			continue
		}
		m.Files = append(m.Files, payload.File{
			Slot:    payload.Slot{Name: path.Base(f.Source), Path: f.Path()},
			Content: payload.Content{Size: 1, SHA256: strings.Repeat("0", 64)},
		})
	}
	return m
}
