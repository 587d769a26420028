// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	kubeletconfigv1 "k8s.io/kubelet/config/v1"
	"sigs.k8s.io/yaml"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/desired/machineconfig"
)

// workerPool is the MachineConfigPool of OpenShift's own workers. Pools that administrators add
// to it may have names and MachineConfigs that begin with the same word.
const workerPool = "worker"

// readWorkers reads how the kubelets of OpenShift's own workers are configured: by the MachineConfig that all of them
// have. That is neither the newest one, as a change may be taken back, nor that which their pool is on its way to: one with which
// a worker breaks ends there, and a pool that is paused on the way changes no host. See decision 48.
func (r *reader) readWorkers(ctx context.Context) error {
	if !r.openShift {
		return nil
	}
	pool := &mcfgv1.MachineConfigPool{}
	known := len(r.findings)
	if found, err := r.get(ctx, "MachineConfigPool", "", workerPool, pool); !found {
		if err == nil && len(r.findings) == known {
			r.miss(pool, "there is no MachineConfigPool "+workerPool+", which says how kubelets are configured", "look at the Machine Config Operator: oc get clusteroperator machine-config")
		}
		return err
	}
	// A pool that is new has none in its status.
	name := cmp.Or(pool.Status.Configuration.Name, pool.Spec.Configuration.Name)
	if name == "" {
		r.find("MachineConfigPool "+workerPool+" has no configuration yet", "wait until the Machine Config Operator has rendered one: oc get machineconfigpool "+workerPool)
		return nil
	}
	object := &mcfgv1.MachineConfig{}
	if found, err := r.get(ctx, "MachineConfig", "", name, object); !found {
		if err == nil && len(r.findings) == known {
			r.find(fmt.Sprintf("there is no MachineConfig %s, which MachineConfigPool %s names", name, workerPool), "look at the Machine Config Operator: oc get clusteroperator machine-config")
		}
		return err
	}
	worker, err := machineconfig.Parse(object.Spec.Config.Raw)
	if err != nil {
		r.find(fmt.Sprintf("MachineConfig %s cannot be used (%s)", name, oneLine(err)), remedyOf(err))
		return nil
	}
	if err := r.takeWorker(name, worker); err != nil {
		return err
	}
	return r.readNextWorkers(ctx, name, pool.Spec.Configuration.Name, worker)
}

// remedyOf says what to do about a MachineConfig that cannot be used.
func remedyOf(err error) string {
	if errors.Is(err, machineconfig.ErrNewer) {
		return "install a newer release of this project, which can read what this release of OpenShift writes"
	}
	return "correct the MachineConfig, KubeletConfig or profile of TLS that it comes from"
}

// readNextWorkers warns where the pool of the workers is on its way from one MachineConfig to the next one and that means something for
// hosts. Most are about Linux only.
func (r *reader) readNextWorkers(ctx context.Context, name, next string, worker *machineconfig.Worker) error {
	if next == "" || next == name {
		return nil
	}
	object, known := &mcfgv1.MachineConfig{}, len(r.findings)
	found, err := r.get(ctx, "MachineConfig", "", next, object)
	r.findings = r.findings[:known] // what is next may be missing
	if !found {
		return err
	}
	becomes, err := machineconfig.Parse(object.Spec.Config.Raw)
	switch {
	case err != nil:
		r.warnings = append(r.warnings, fmt.Sprintf("MachineConfig %s, which MachineConfigPool %s is on its way to, cannot be used for hosts (%s): %s before all workers have it", next, workerPool, oneLine(err), remedyOf(err)))
	case !reflect.DeepEqual(becomes, worker):
		r.warnings = append(r.warnings, fmt.Sprintf("the host follows MachineConfigPool %s from MachineConfig %s to %s when all workers have that: oc get machineconfigpool %s", workerPool, name, next, workerPool))
	}
	return nil
}

// takeWorker takes what holds for Windows hosts, too.
func (r *reader) takeWorker(name string, worker *machineconfig.Worker) error {
	r.warnOfPlatform(worker.CloudProvider)
	r.cluster.KubeletArguments = map[string]string{}
	if worker.CloudProvider != nil {
		r.cluster.KubeletArguments["cloud-provider"] = *worker.CloudProvider
	}
	if worker.CloudConfigPath != "" {
		r.cluster.KubeletArguments["cloud-config"] = worker.CloudConfigPath
		r.cluster.CloudConfig = config.SecretValue(worker.CloudConfig)
	}
	r.workers = worker.Kubelet
	for _, warning := range worker.Warnings {
		r.warnings = append(r.warnings, fmt.Sprintf("MachineConfig %s: %s", name, warning))
	}
	var addresses []netip.Addr
	for _, text := range worker.Kubelet.ClusterDNS {
		address, err := netip.ParseAddr(text)
		if err != nil {
			r.find(fmt.Sprintf("MachineConfig %s cannot be used (clusterDNS %q of its kubelet is not an address)", name, text), "correct the KubeletConfig that it comes from")
			return nil //nolint:nilerr // it is a finding
		}
		addresses = append(addresses, address)
	}
	slices.SortStableFunc(addresses, ipv4First)
	if len(addresses) > 0 {
		r.cluster.DNS = addresses[0]
	}
	return r.takeCredentialProviders(name, worker.CredentialProviders)
}

// ecrProvider is the credential provider of workers that hosts have as well, on AWS.
const ecrProvider = "ecr-credential-provider"

// takeCredentialProviders takes that of the programs for the credentials of registries that the payload may have. A kubelet does not
// start if one that it is told of is not there.
func (r *reader) takeCredentialProviders(name string, text []byte) error {
	if len(text) == 0 {
		return nil
	}
	providers := &kubeletconfigv1.CredentialProviderConfig{}
	if err := yaml.Unmarshal(text, providers); err != nil {
		r.find(fmt.Sprintf("MachineConfig %s cannot be used (its credential providers: %s)", name, oneLine(err)), "correct the MachineConfig that it comes from")
		return nil
	}
	var kept []kubeletconfigv1.CredentialProvider
	for i := range providers.Providers {
		p := &providers.Providers[i]
		if r.cluster.Platform == configv1.AWSPlatformType && p.Name == ecrProvider {
			p.Name += ".exe"
			kept = append(kept, *p)
			continue
		}
		r.warnings = append(r.warnings, fmt.Sprintf("Windows hosts do not run %s, which workers run (MachineConfig %s): images of %s are pulled there without credentials of the platform; name a pull secret for them in imagePullSecrets of their pods or ServiceAccounts",
			p.Name, name, strings.Join(p.MatchImages, ", ")))
	}
	if len(kept) == 0 {
		return nil // on AWS that of ECR stays as it is by default: a kubelet takes no file without any
	}
	providers.Providers = kept
	encoded, err := yaml.Marshal(providers)
	if err != nil {
		return fmt.Errorf("encode the credential providers: %w", err)
	}
	r.cluster.CredentialProviderConfig = encoded
	return nil
}
