// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package main

import (
	"context"
	"slices"
	"text/template"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// workloads are what runs on the nodes. The pods of web come and go quickly. Those of
// db take their time, and a budget wants one of the two at any time: who drains their
// node waits for the first to be ready elsewhere.
var workloads = template.Must(template.New("").Parse(`
apiVersion: v1
kind: Namespace
metadata: {name: shop}
{{- range .}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{.Name}}, namespace: shop}
spec:
  replicas: {{.Replicas}}
  selector: {matchLabels: {app: {{.Name}}}}
  template:
    metadata: {labels: {app: {{.Name}}}}
    spec:
      nodeSelector: {kubernetes.io/os: windows}
      tolerations: [{key: os, value: Windows, effect: NoSchedule}]
      terminationGracePeriodSeconds: 30
      automountServiceAccountToken: false
      containers:
      - name: {{.Name}}
        image: example.com/shop/{{.Name}}
        readinessProbe: {tcpSocket: {port: 80}, initialDelaySeconds: {{.StartSeconds}}}
        lifecycle: {preStop: {sleep: {seconds: {{.StopSeconds}}}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: {{.Name}}, namespace: shop}
spec:
  minAvailable: {{.MinAvailable}}
  selector: {matchLabels: {app: {{.Name}}}}
{{- end}}
`))

type workload struct {
	Name                                              string
	Replicas, MinAvailable, StartSeconds, StopSeconds int
}

var shop = []workload{
	{Name: "web", Replicas: 10, MinAvailable: 0, StartSeconds: 2, StopSeconds: 2},
	{Name: "db", Replicas: 2, MinAvailable: 1, StartSeconds: 20, StopSeconds: 5},
}

// lookEvery is how often the scheduler looks for pods without a node.
const lookEvery = time.Second

// nodeHosts are the hosts whose Nodes take pods, the one that takes them first at the
// beginning. The Wine host runs the real kubelet, which cannot run pods there, and the
// kubelet of the last host is dead.
func (s *site) nodeHosts() []winhost.Host {
	alive := slices.Concat(s.fromConfigMap[:len(s.fromConfigMap)-1], s.fromMachines)
	if alive[0].Tier() == winhost.TierWine {
		alive = alive[1:]
	}
	busy := slices.Index(alive, s.fromConfigMap[len(s.fromConfigMap)-2])
	return slices.Concat(alive[max(busy, 0):], alive[:max(busy, 0)])
}

// schedule puts pods on nodes until ctx is done, as there is no scheduler: all on the
// first one that takes pods, so that one of them has something to lose.
func (s *site) schedule(ctx context.Context, sys *system.System) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		// What failed is tried again.
		_ = s.scheduleOnce(ctx, sys)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (s *site) scheduleOnce(ctx context.Context, sys *system.System) error {
	client := sys.Kube
	pods, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName="})
	if err != nil || len(pods.Items) == 0 {
		return err
	}
	names, err := nodeNames(ctx, sys)
	if err != nil {
		return err
	}
	for _, host := range s.nodeHosts() {
		node, err := client.CoreV1().Nodes().Get(ctx, names[endpointOf(host)], metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !takesPods(node) {
			continue
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			if !labels.SelectorFromSet(pod.Spec.NodeSelector).Matches(labels.Set(node.Labels)) {
				continue // those of our programs, which run beside the cluster here, are for Linux
			}
			if err := client.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID},
				Target:     corev1.ObjectReference{Kind: "Node", Name: node.Name},
			}, metav1.CreateOptions{}); err != nil {
				return err
			}
		}
		return nil
	}
	return nil
}

func takesPods(node *corev1.Node) bool {
	return !node.Spec.Unschedulable && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
