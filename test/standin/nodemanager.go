// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package standin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/openshift/windows-instance-api/test/winhost"
)

// uninitializedTaint is put on its Node by a kubelet with --cloud-provider=external.
const uninitializedTaint = "node.cloudprovider.kubernetes.io/uninitialized"

// runNodeManager is the cloud node manager of a host on Azure: it completes its Node, with the credentials that its
// command line names. The real one writes addresses, zone and provider ID as well.
func runNodeManager(ctx context.Context, s winhost.ServiceStart) error {
	var kubeconfig, name string
	for word := range strings.FieldsSeq(s.CommandLine) {
		if value, ok := strings.CutPrefix(word, "--kubeconfig="); ok {
			kubeconfig = filepath.Join(s.Drive, filepath.FromSlash(strings.ReplaceAll(strings.TrimPrefix(value, `C:\`), `\`, "/")))
		}
		if value, ok := strings.CutPrefix(word, "--node-name="); ok {
			name = value
		}
	}
	text, err := os.ReadFile(kubeconfig)
	if err != nil {
		return err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(text)
	if err != nil {
		return fmt.Errorf("reading %s: %w", kubeconfig, err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	// It goes on whatever happens, as the real one does.
	err = wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		if err := initialize(ctx, client, name, s.Hostname); err != nil {
			s.Logf("%s: cloud node manager: %v", s.Hostname, err)
		}
		return false, nil
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// initialize completes a Node that is called as the virtual machine, which the computer is called as, too, on Azure.
func initialize(ctx context.Context, client kubernetes.Interface, name, computer string) error {
	if !strings.EqualFold(name, computer) {
		return fmt.Errorf("the virtual machine %s is not that of Node %s", computer, name)
	}
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	uninitialized := func(t corev1.Taint) bool { return t.Key == uninitializedTaint }
	if !slices.ContainsFunc(node.Spec.Taints, uninitialized) {
		return nil
	}
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, uninitialized)
	_, err = client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
	return err
}
