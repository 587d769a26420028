// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package machineconfig

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode"

	"github.com/coreos/ignition/v2/config/util"
	ignition "github.com/coreos/ignition/v2/config/v3_5"
	"github.com/coreos/ignition/v2/config/v3_5/types"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// Where the Machine Config Operator has what this package reads
// (templates/worker/01-worker-kubelet in its repository).
const (
	kubeletUnit    = "kubelet.service"
	kubeletDropins = "/etc/systemd/system/kubelet.service.d/"
	kubeletConfig  = "/etc/kubernetes/kubelet.conf"
	nodeSizing     = "/etc/node-sizing-enabled.env"
)

// Arguments of the kubelet that are read.
const (
	argumentCloudProvider       = "cloud-provider"
	argumentCloudConfig         = "cloud-config"
	argumentCredentialProviders = "image-credential-provider-config" //nolint:gosec // the name of an argument
)

// argumentsRead are all of them.
var argumentsRead = []string{argumentCloudProvider, argumentCloudConfig, argumentCredentialProviders}

// Worker is what the kubelets of the cluster's own workers are configured with.
type Worker struct {
	// CloudProvider is the value of --cloud-provider, which may be empty. Nil: the kubelet has no
	// such argument.
	CloudProvider *string
	// CloudConfig is the content of the file that --cloud-config names, and CloudConfigPath its
	// path there. Empty: the kubelet has no such argument, as since OpenShift 4.16. That the file is
	// there says nothing: it always is.
	CloudConfig     []byte
	CloudConfigPath string
	// CredentialProviders is the file by which the kubelet asks programs for the credentials of
	// registries. Empty: there are no such programs.
	CredentialProviders []byte
	// Kubelet has the settings of the configuration file that hold for Windows, too. Zero values
	// mean that nothing is set.
	Kubelet kubeletv1beta1.KubeletConfiguration
	// Warnings say what of the settings was left out, because no kubelet of a host knows it.
	Warnings []string
}

// ErrNewer is the error of [Parse] about a configuration of a version of Ignition that is newer than those that
// this package reads. The Machine Config Operator chooses the version, so nobody can correct it.
var ErrNewer = errors.New("its version of Ignition is newer than 3.5")

// Parse reads the field spec.config of a MachineConfig: a configuration of Ignition, of version 3.0
// to 3.5. The error lists everything that cannot be used; then nothing of it should be. It is [ErrNewer] where a
// newer release of this package may read it.
func Parse(raw []byte) (*Worker, error) {
	if version, _, err := util.GetConfigVersion(raw); err == nil && types.MaxVersion.LessThan(version) {
		return nil, fmt.Errorf("%w: %s", ErrNewer, version)
	}
	config, report, err := ignition.ParseCompatibleVersion(raw)
	if err != nil {
		if text := strings.TrimSpace(report.String()); text != "" {
			return nil, fmt.Errorf("it is not a configuration of Ignition 3.0 to 3.5: %w (%s)", err, strings.ReplaceAll(text, "\n", ", "))
		}
		return nil, fmt.Errorf("it is not a configuration of Ignition 3.0 to 3.5: %w", err)
	}
	files := filesOf(config)
	w := &Worker{}
	return w, errors.Join(w.readArguments(config, files), w.readConfiguration(files))
}

// readArguments reads the command line of the kubelet, and the files that it names.
func (w *Worker) readArguments(config types.Config, files files) error {
	sources, err := unitSources(config, files)
	if err != nil {
		return err
	}
	command, err := commandOf(sources)
	if err != nil {
		return fmt.Errorf("unit %s: %w", kubeletUnit, err)
	}
	arguments, err := argumentsOf(command)
	if err != nil {
		return fmt.Errorf("unit %s: %w", kubeletUnit, err)
	}
	for _, name := range argumentsRead {
		value := arguments[name]
		if strings.ContainsAny(value, "$%") { // what systemd fills in is only known on a worker
			return fmt.Errorf("unit %s: the value %q of --%s is not the same on all hosts", kubeletUnit, value, name)
		}
		if strings.ContainsFunc(value, func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) }) {
			return fmt.Errorf("unit %s: the value %q of --%s is not one word", kubeletUnit, value, name)
		}
	}
	if value, ok := arguments[argumentCloudProvider]; ok {
		w.CloudProvider = &value
	}
	w.CloudConfigPath = arguments[argumentCloudConfig]
	var errs []error
	for file, content := range map[string]*[]byte{
		w.CloudConfigPath: &w.CloudConfig, arguments[argumentCredentialProviders]: &w.CredentialProviders,
	} {
		if file == "" {
			continue
		}
		if *content, err = files.read(path.Clean(file)); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
