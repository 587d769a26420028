// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package drain

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

const (
	// podsPage is how many pods are read at a time. Whoever may create pods can make each as large as etcd takes, 1.5 MiB, and have thousands
	// on a Node, also such as its kubelet rejects.
	podsPage = 20
	// maxPages is how many pages a process has in memory at a time.
	maxPages = 4
	// maxLabels is how long the labels of a pod may be together that are kept. They only say which budget keeps it.
	maxLabels = 16 << 10
)

// pages has an entry for each page that is in memory.
var pages = make(chan struct{}, maxPages)

// EachPod calls do for each pod of a Node that labels select, all if that is empty. It reads few at a time, whose memory is
// free again when do returns, unless that keeps them. Errors are those of the API server, and the cause of a context that ends.
func EachPod(ctx context.Context, client kubernetes.Interface, node, labels string, do func(*corev1.Pod)) error {
	o := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(nodeNameField, node).String(), LabelSelector: labels, Limit: podsPage}
	for {
		next, err := readPage(ctx, client.CoreV1().Pods(metav1.NamespaceAll), o, do)
		if err != nil {
			return fmt.Errorf("listing the pods of Node %s: %w", node, err)
		}
		if o.Continue = next; next == "" {
			return nil
		}
	}
}

// readPage calls do for each pod of a page, and returns where the next one begins. Empty: it was the last.
func readPage(ctx context.Context, pods corev1client.PodInterface, o metav1.ListOptions, do func(*corev1.Pod)) (next string, err error) {
	select {
	case pages <- struct{}{}:
		defer func() { <-pages }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	list, err := pods.List(ctx, o)
	if err != nil {
		return "", err
	}
	for i := range list.Items {
		do(&list.Items[i])
	}
	return list.Continue, nil
}

// lean is a client whose lists of pods have no more of each than a drain needs, see [trimmed].
type lean struct{ kubernetes.Interface }

// CoreV1 implements [kubernetes.Interface].
func (l lean) CoreV1() corev1client.CoreV1Interface { return leanCore{l.Interface.CoreV1()} }

type leanCore struct{ corev1client.CoreV1Interface }

// Pods implements [corev1client.PodsGetter].
func (c leanCore) Pods(namespace string) corev1client.PodInterface {
	return leanPods{c.CoreV1Interface.Pods(namespace)}
}

type leanPods struct{ corev1client.PodInterface }

// List implements [corev1client.PodInterface].
func (p leanPods) List(ctx context.Context, o metav1.ListOptions) (*corev1.PodList, error) {
	out := &corev1.PodList{}
	next, err := readPage(ctx, p.PodInterface, o, func(pod *corev1.Pod) { out.Items = append(out.Items, *trimmed(pod)) })
	if err != nil {
		return nil, err
	}
	out.Continue = next
	return out, nil
}

// trimmed is what a drain, with the filters of kubectl, reads of a pod. However large that is, little is left.
func trimmed(pod *corev1.Pod) *corev1.Pod {
	out := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			DeletionTimestamp: pod.DeletionTimestamp, DeletionGracePeriodSeconds: pod.DeletionGracePeriodSeconds,
		},
		Spec:   corev1.PodSpec{NodeName: pod.Spec.NodeName, TerminationGracePeriodSeconds: pod.Spec.TerminationGracePeriodSeconds},
		Status: corev1.PodStatus{Phase: pod.Status.Phase},
	}
	length := 0
	for key, value := range pod.Labels {
		length += len(key) + len(value)
	}
	if length <= maxLabels {
		out.Labels = pod.Labels
	}
	if mirrors, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]; ok {
		out.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: mirrors[:min(len(mirrors), 1)]}
	}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		out.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	if hasEmptyDir(pod) {
		out.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	}
	if at := slices.IndexFunc(pod.Spec.Tolerations, isOfCordon); at >= 0 {
		out.Spec.Tolerations = []corev1.Toleration{pod.Spec.Tolerations[at]}
	}
	return out
}
