// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"cmp"
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// completions are the words that fit what is typed so far.
type completions func(ctx context.Context, c *client, toComplete string) []string

const (
	// completeWithin is for how long a shell waits for the words after a key was pressed.
	completeWithin = 2 * time.Second
	// maxWords is how many objects are read at most.
	maxWords = 500
)

// wordList reads the objects that are completed.
var wordList = metav1.ListOptions{Limit: maxWords}

// completionNames are those of the programs that kubectl and oc ask for the words that complete a command of this plugin.
var completionNames = []string{"kubectl_complete-windows", "oc_complete-windows"}

// Arguments are those of the command line of the process, which begins with the name of the program. The plugin itself is the
// program for completion when it has the name of that, as a link or a copy: a script would not be found on Windows.
func Arguments(commandLine []string) []string {
	name := strings.TrimSuffix(strings.ToLower(filepath.Base(commandLine[0])), ".exe")
	if slices.Contains(completionNames, name) {
		return slices.Concat([]string{cobra.ShellCompRequestCmd}, commandLine[1:])
	}
	return commandLine[1:]
}

// complete makes a function of cobra of words that the server knows. Whatever goes
// wrong, the shell gets no words, or those that came in time: there is no place for an error.
func (e *env) complete(cmd *cobra.Command, words completions, toComplete string) ([]string, cobra.ShellCompDirective) {
	c, err := e.client()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
	defer cancel()
	var fitting []string
	for _, word := range words(ctx, c, toComplete) {
		if strings.HasPrefix(word, toComplete) {
			fitting = append(fitting, word)
		}
	}
	return fitting, cobra.ShellCompDirectiveNoFileComp
}

func (e *env) completeFlag(cmd *cobra.Command, flag string, words completions) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		return e.complete(cmd, words, toComplete)
	})
	utilruntime.Must(err) // the flag was defined before
}

func completeWords(cmd *cobra.Command, flag string, words ...string) {
	utilruntime.Must(cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)))
}

// completeHosts completes hosts as all arguments, each once.
func (e *env) completeHosts(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	return e.complete(cmd, func(ctx context.Context, c *client, _ string) []string {
		return slices.DeleteFunc(hosts(ctx, c), func(host string) bool { return slices.Contains(args, host) })
	}, toComplete)
}

// completeHost completes one host as the first argument.
func (e *env) completeHost(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return e.completeHosts(cmd, nil, toComplete)
}

// completePool completes one pool as the first argument.
func (e *env) completePool(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return e.complete(cmd, pools, toComplete)
}

// namesOf returns the names of the objects of a list, none when it cannot be read.
func namesOf(list runtime.Object, err error) []string {
	if err != nil {
		return nil
	}
	var names []string
	_ = meta.EachListItem(list, func(obj runtime.Object) error { // the lists of our clients have items
		object, err := meta.Accessor(obj)
		if err == nil {
			names = append(names, object.GetName())
		}
		return err
	})
	return names
}

// hosts returns the names of the instances of the namespace, and those of all Nodes.
func hosts(ctx context.Context, c *client) []string {
	names := namesOf(c.windows.WindowsInstances(c.namespace).List(ctx, wordList))
	namespace := metav1.NamespaceAll
	if c.explicit {
		namespace = c.namespace
	}
	if list, err := c.windows.WindowsInstances(namespace).List(ctx, wordList); err == nil {
		for i := range list.Items {
			if node := list.Items[i].Status.Node; node != nil && !slices.Contains(names, node.Name) {
				names = append(names, node.Name)
			}
		}
	}
	return names
}

// pools returns the names of the pools of all namespaces, or of the one that may be read.
func pools(ctx context.Context, c *client, _ string) []string {
	names := namesOf(c.windows.WindowsNodePools(metav1.NamespaceAll).List(ctx, wordList))
	if names == nil {
		names = namesOf(c.windows.WindowsNodePools(c.namespace).List(ctx, wordList))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func namespaces(ctx context.Context, c *client, _ string) []string {
	return namesOf(c.core.Namespaces().List(ctx, wordList))
}

// logSource is an entry of the index of logs. Kind is service, file or channel.
type logSource struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
}

// logSources are the logs of a host, services first.
func logSources(ctx context.Context, c *client, t target) []string {
	raw, err := c.request("GET", t, logSubresource).Param("output", "json").Do(ctx).Raw()
	if err != nil {
		return nil
	}
	var index struct {
		Entries []logSource `json:"entries"`
	}
	if err := json.Unmarshal(raw, &index); err != nil {
		return nil
	}
	slices.SortStableFunc(index.Entries, func(a, b logSource) int { return cmp.Compare(b.Kind, a.Kind) })
	var names []string
	for _, entry := range index.Entries {
		names = append(names, entry.Name)
	}
	return names
}
