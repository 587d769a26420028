// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// machineNamespace is where OpenShift keeps Machines.
const machineNamespace = "openshift-machine-api"

// inputs is what administrators write today: the ConfigMap, and a MachineSet as the
// documentation prescribes it, with the Machines that the Machine API makes of it.
var inputs = template.Must(template.New("").Parse(`
apiVersion: v1
kind: ConfigMap
metadata:
  name: windows-instances
  namespace: {{.Namespace}}
data:
{{- range .Entries}}
  "{{.Key}}": |-
    username={{.User}}
{{- if ne .Port 22}}
    port={{.Port}}
    name={{.Name}}
{{- end}}
{{- end}}
---
apiVersion: v1
kind: Namespace
metadata:
  name: {{.MachineNamespace}}
---
apiVersion: machine.openshift.io/v1beta1
kind: MachineSet
metadata:
  name: winworker
  namespace: {{.MachineNamespace}}
  labels: {machine.openshift.io/cluster-api-cluster: demo}
spec:
  replicas: {{len .Machines}}
  selector:
    matchLabels: {machine.openshift.io/cluster-api-machineset: winworker}
  template:
    metadata:
      labels:
        machine.openshift.io/cluster-api-machineset: winworker
        machine.openshift.io/os-id: Windows
    spec: {}
`))

// machinesOf is what the Machine API makes of the MachineSet.
var machinesOf = template.Must(template.New("").Parse(`
{{- range .Machines}}
---
apiVersion: machine.openshift.io/v1beta1
kind: Machine
metadata:
  name: {{.Name}}
  namespace: {{$.MachineNamespace}}
  labels:
    machine.openshift.io/cluster-api-machineset: winworker
    machine.openshift.io/os-id: Windows
  ownerReferences:
  - {apiVersion: machine.openshift.io/v1beta1, kind: MachineSet, name: winworker, uid: {{$.SetUID}}, controller: true, blockOwnerDeletion: true}
spec: {}
{{- end}}
`))

type entry struct {
	Key, Name, User string
	Port            int
}

// instance is the name that the WindowsInstance of the entry gets.
func (e entry) instance() string {
	if e.Port == sshPort {
		return e.Key
	}
	return e.Name
}

type machine struct{ Name, Address string }

// declare creates the inputs and, in the place of the cloud, the status of the Machines. Where OpenShift runs, its Machine API makes
// these; elsewhere it is done here.
func (s *site) declare(ctx context.Context, sys *system.System, platform configv1.PlatformType) error {
	data := struct {
		Namespace, MachineNamespace, SetUID string

		Entries  []entry
		Machines []machine
	}{Namespace: system.Namespace, MachineNamespace: machineNamespace}
	for _, host := range s.fromConfigMap {
		data.Entries = append(data.Entries, entryOf(host))
	}
	for i, host := range s.fromMachines {
		data.Machines = append(data.Machines, machine{Name: fmt.Sprintf("winworker-%s", []string{"x7k2p", "q9d4c"}[i]), Address: host.Address()})
	}
	if err := apply(ctx, sys, inputs, data); err != nil {
		return err
	}
	if platform != "" {
		names, err := machinesMade(ctx, sys, len(data.Machines))
		if err != nil {
			return err
		}
		for i := range data.Machines {
			data.Machines[i].Name = names[i]
		}
	} else {
		uid, err := sys.Kubectl(ctx, "get", "machineset", "winworker", "-n", machineNamespace, "-o", "jsonpath={.metadata.uid}")
		if err != nil {
			return err
		}
		data.SetUID = uid
		if err := apply(ctx, sys, machinesOf, data); err != nil {
			return err
		}
	}
	for _, m := range data.Machines {
		if sys.Cloud != nil && sys.Cloud.ProviderID(m.Address) != "" {
			if _, err := sys.Kubectl(ctx, "patch", "machine", m.Name, "-n", machineNamespace, "--type=merge", "-p", fmt.Sprintf(`{"spec":{"providerID":%q}}`, sys.Cloud.ProviderID(m.Address))); err != nil {
				return err
			}
		}
		if _, err := sys.Kubectl(ctx, "patch", "machine", m.Name, "-n", machineNamespace, "--subresource=status", "--type=merge",
			"-p", fmt.Sprintf(`{"status":{"phase":"Provisioned","addresses":[{"type":"InternalIP","address":%q}]}}`, m.Address)); err != nil {
			return err
		}
	}
	return nil
}

// machinesMade waits for as many Machines of the MachineSet, and returns their names.
func machinesMade(ctx context.Context, sys *system.System, want int) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		out, err := sys.Kubectl(ctx, "get", "machines", "-n", machineNamespace, "-l", "machine.openshift.io/cluster-api-machineset=winworker", "-o", "jsonpath={.items[*].metadata.name}")
		if err != nil {
			return nil, err
		}
		if names := strings.Fields(out); len(names) == want {
			return names, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the Machine API has made %q, want %d Machines: %w", out, want, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// apply renders manifests and applies them.
func apply(ctx context.Context, sys *system.System, manifests *template.Template, data any) error {
	var rendered bytes.Buffer
	if err := manifests.Execute(&rendered, data); err != nil {
		return err
	}
	cmd := sys.KubectlCommand(ctx, sys.KubeconfigPath(), "apply", "--server-side", "-f", "-")
	cmd.Stdin = &rendered
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl apply: %w\n%s", err, out)
	}
	return nil
}

// entryOf is the entry of a host in the ConfigMap.
func entryOf(host winhost.Host) entry {
	return entry{Key: host.Address(), Name: host.Name(), User: host.User(), Port: host.Port()}
}

// waitForHosts waits until all hosts are nodes.
func waitForHosts(ctx context.Context, sys *system.System, want int, p *progress) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	shown := ""
	for {
		list, err := sys.Windows.WindowsV1alpha1().WindowsInstances("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		phases := map[v1alpha1.WindowsInstancePhase]int{}
		n := 0
		for i := range list.Items {
			status := &list.Items[i].Status
			phases[status.Phase]++
			if meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady) {
				n++
			}
		}
		if text := phaseText(phases); text != shown {
			p.detail("%s", text)
			shown = text
		}
		if n >= want {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("only %d of %d hosts are nodes (%s); kubectl describe wi -A says why: %w", n, want, shown, ctx.Err())
		case <-sys.Failed():
			return sys.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// phaseText says how many hosts are in which phase.
func phaseText(phases map[v1alpha1.WindowsInstancePhase]int) string {
	var parts []string
	for _, phase := range slices.Sorted(maps.Keys(phases)) {
		parts = append(parts, fmt.Sprintf("%d %s", phases[phase], cmp.Or(phase, v1alpha1.InstancePending)))
	}
	return strings.Join(parts, ", ")
}

// endpoint is where a host is reached.
type endpoint struct {
	address string
	port    int32
}

func endpointOf(host winhost.Host) endpoint {
	return endpoint{host.Address(), int32(host.Port())}
}

// nodeNames returns the names of the Nodes of all hosts that are nodes: a cloud calls hosts as it likes.
func nodeNames(ctx context.Context, sys *system.System) (map[endpoint]string, error) {
	list, err := sys.Windows.WindowsV1alpha1().WindowsInstances("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	names := map[endpoint]string{}
	for i := range list.Items {
		if node := list.Items[i].Status.Node; node != nil {
			names[endpoint{list.Items[i].Spec.Address, list.Items[i].Spec.Port}] = node.Name
		}
	}
	return names, nil
}

// show runs commands as an administrator would, and prints what they say.
func show(ctx context.Context, sys *system.System, first string) error {
	for _, args := range [][]string{
		{"get", "windowsinstances", "-A"},
		{"get", "nodes", "-o", "wide"},
		{"windows", "reconfigure", first, "--dry-run=server"},
	} {
		cmd := sys.KubectlCommand(ctx, sys.KubeconfigPath(), args...)
		cmd.Env = append(cmd.Environ(), "PATH="+sys.PluginDir()+string(os.PathListSeparator)+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		fmt.Printf("\n$ kubectl %s\n%s", strings.Join(args, " "), out)
		if err != nil {
			return fmt.Errorf("kubectl %s: %w", strings.Join(args, " "), err)
		}
	}
	return nil
}

func printHowTo(sys *system.System, s *site, names map[endpoint]string, recordings string, platform configv1.PlatformType) error {
	dead := s.fromConfigMap[len(s.fromConfigMap)-1]
	return howTo.Execute(os.Stdout, struct {
		Kubeconfig, Programs, Kubectl, Logs, Recordings, Namespace string

		First, Busy, Pending, Dead, DeadInstance string

		OpenShift bool
	}{
		Kubeconfig: sys.KubeconfigPath(), Programs: sys.PluginDir(), Kubectl: filepath.Dir(sys.KubectlPath()),
		Logs: filepath.Join(sys.Dir(), "log"), Recordings: recordings, Namespace: system.Namespace,
		First: names[endpointOf(s.fromConfigMap[0])], Busy: names[endpointOf(s.nodeHosts()[0])], Pending: names[endpointOf(s.fromMachines[machines-1])],
		Dead: names[endpointOf(dead)], DeadInstance: entryOf(dead).instance(), OpenShift: platform != "",
	})
}

var howTo = template.Must(template.New("").Parse(`
Everything runs. In another terminal:

  export KUBECONFIG={{.Kubeconfig}}
  export PATH={{.Programs}}:{{.Kubectl}}:$PATH

  kubectl windows get -A
  kubectl windows drain {{.Busy}}                     # 12 pods, two of them behind a budget: half a minute
  kubectl windows uncordon {{.Busy}}
  kubectl windows reboot {{.Pending}} --mode=IfPending   # its Windows waits for a restart
  kubectl windows logs {{.Dead}} kubelet --tail=3 -f  # its kubelet hangs, its log does not
  kubectl windows reconfigure {{.First}} --dry-run=server
  kubectl patch wnp -n {{.Namespace}} windows-instances --type=merge -p '{"spec":{"template":{"kubelet":{"maxPods":110}}}}'
  kubectl windows describe {{.First}}                 # what that does, step by step
  kubectl windows shell {{.Busy}}                     # knows ver and hostname, and exit to leave
  kubectl windows exec {{.First}} -- cmd /c ver
  kubectl windows inspect {{.Busy}}
  kubectl windows check {{.Dead}}
  kubectl windows port-forward {{.Busy}} 15985:5985   # then: curl localhost:15985
  kubectl windows --help

{{- if .OpenShift}}

What OpenShift's workers are configured with, hosts are, too:

  kubectl get infrastructure,machineconfigpool,machineconfig,controllerconfig
  kubectl patch proxy.config cluster --type=merge -p '{"spec":{"httpProxy":"http://proxy.example.com:3128"}}'
  kubectl windows get -A -w                           # one host after the other is drained and restarted
{{- end}}

Without the plugin:

  kubectl get windows -A
  kubectl describe windowsinstance -n {{.Namespace}} {{.DeadInstance}}
  kubectl get --raw '/apis/windows.openshift.io/v1alpha1/namespaces/{{.Namespace}}/windowsinstances/{{.DeadInstance}}/log?query=kubelet&tailLines=3&follow=true'
  kubectl edit configmap -n {{.Namespace}} windows-instances   # add, change, remove a host

Logs of the programs are in {{.Logs}},
what shells have shown is recorded in {{.Recordings}}. Ctrl-C stops and removes everything.
`))
