// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// noQuestion is what --yes means where nothing but -A is asked about.
const noQuestion = "Do not ask before -A without --pool or a selector, nor before -A --pool where several namespaces have a pool of that name"

// beCareful makes the command end with the first host that fails, and ask before it disturbs all hosts of a cluster, or several
// without waiting for any of them. A dry run disturbs none.
func (a *action) beCareful(e *env, cmd *cobra.Command, verb string) {
	usage := noQuestion + ", nor before several hosts with --wait=false"
	if a.overwrites {
		usage += ", nor before selected hosts that wait for a confirmation"
	}
	cmd.Flags().BoolVar(&a.yes, "yes", false, usage+".")
	a.goOn = func(left []target) string { return goOn(cmd, left) }
	if a.repeatable {
		a.passesOver = refused
	}
	a.confirm = func(ctx context.Context, targets []target) error {
		if a.dryRun != "none" {
			return nil
		}
		what, instead := a.risk(verb, targets)
		lost := a.lost(targets)
		switch {
		case a.yes || what == "" && (lost == "" || !a.selects()):
			if lost != "" {
				e.note("%s.", lost)
			}
			return nil
		case what == "":
			what, instead = lost, "name those that are to get it"
		case lost != "":
			what += ". " + lost
		}
		return e.confirm(ctx, what, instead)
	}
}

// refused says whether the server refused what was asked of a host as it is: it was done before, or another operation runs.
func refused(err error) bool {
	exit, ok := errors.AsType[*ExitError](err)
	return apierrors.IsConflict(err) || ok && exit.Code == ExitConflict
}

// askBeforeAll makes the command ask before it is for all hosts of a cluster. A failure of one stops no other.
func (a *action) askBeforeAll(e *env, cmd *cobra.Command, verb string) {
	cmd.Flags().BoolVar(&a.yes, "yes", false, noQuestion+".")
	a.confirm = func(ctx context.Context, targets []target) error {
		what, instead := a.riskOfAll(verb, targets)
		if a.yes || what == "" || a.dryRun == "server" {
			return nil
		}
		return e.confirm(ctx, what, instead)
	}
}

// confirm asks whether to go on although much is done by it: what, and instead is what to do in its place.
func (e *env) confirm(ctx context.Context, what, instead string) error {
	if !printers.IsTerminal(e.In) {
		return fmt.Errorf("%s, and nobody can be asked here: %s, or add --yes", what, instead)
	}
	e.note("%s.", what)
	return e.ask(ctx, "Type yes to go on: ")
}

// risk is what the command would do to many hosts, if that is to be asked about, and what to do instead. Empty: nothing of that kind.
func (a *action) risk(verb string, targets []target) (what, instead string) {
	if !a.wait && len(targets) > 1 {
		return fmt.Sprintf("with --wait=false this would %s at the same time", manyHosts(verb, targets)), "leave --wait=false out"
	}
	return a.riskOfAll(verb, targets)
}

// riskOfAll is as risk, for what may be done to several hosts at the same time.
func (a *action) riskOfAll(verb string, targets []target) (what, instead string) {
	switch {
	case a.everything():
		return "-A without --pool or a selector would " + manyHosts(verb, targets), "select some with --pool or -l"
	case a.allNamespaces && a.pool != "" && len(namespacesOf(targets)) > 1: // pools of several namespaces may have one name
		return fmt.Sprintf("-A with --pool=%s would %s", a.pool, manyHosts(verb, targets)), "name the namespace of the pool with -n"
	}
	return "", ""
}

// manyHosts says what is done to how many hosts.
func manyHosts(verb string, targets []target) string {
	return fmt.Sprintf("%s %s in %s", verb, words.Count(len(targets), "host"), words.Count(len(namespacesOf(targets)), "namespace"))
}

// maxNamed is how many hosts a sentence names.
const maxNamed = 5

// lost says which hosts get another configuration than they may be meant to have, because that was lost with their objects. Empty: none.
func (a *action) lost(targets []target) string {
	if !a.overwrites {
		return ""
	}
	var names []string
	for _, t := range targets {
		if c := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionUpToDate); c != nil && c.Reason == v1alpha1.ReasonConfirmationNeeded {
			names = append(names, label(t, targets))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("%s %s for a confirmation of what to have, because it may be lost, and %s what is desired now (condition UpToDate)",
		words.Enumerate(names, maxNamed), words.Form(len(names), "waits", "wait"), words.Form(len(names), "gets", "get"))
}

// everything says whether all hosts of all namespaces are selected.
func (s *selection) everything() bool {
	return s.allNamespaces && s.pool == "" && s.selector == "" && s.fieldSelector == ""
}

// namespacesOf are the namespaces of hosts, in their order.
func namespacesOf(targets []target) []string {
	var all []string
	for _, t := range targets {
		if !slices.Contains(all, t.Namespace) {
			all = append(all, t.Namespace)
		}
	}
	return all
}

// ask asks a question. The error is nil if the answer is yes.
func (e *env) ask(ctx context.Context, question string) error {
	_, _ = fmt.Fprint(e.ErrOut, question)
	answer := make(chan string, 1)
	go func() {
		// It ends with the line, or else with the process.
		line, err := bufio.NewReader(e.In).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			line = ""
		}
		answer <- strings.TrimSpace(line)
	}()
	select {
	case <-ctx.Done():
		e.note("")
		return ctx.Err()
	case text := <-answer:
		if text != "yes" {
			return errors.New("nothing was changed")
		}
		return nil
	}
}

// secretFlags are the flags of all commands that are not shown again.
var secretFlags = []string{"token", "password"}

// notRepeated are those that the names of hosts replace, and the namespace, which is said with them.
var notRepeated = []string{"selector", "field-selector", "pool", "all-namespaces", "namespace", "yes"}

// goOn is the same command for the hosts that are left, one for each of their namespaces.
func goOn(cmd *cobra.Command, left []target) string {
	var flags []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if slices.Contains(notRepeated, f.Name) || slices.Contains(secretFlags, f.Name) {
			return
		}
		values := []string{f.Value.String()}
		if several, ok := f.Value.(pflag.SliceValue); ok {
			values = several.GetSlice()
		}
		for _, value := range values {
			flags = append(flags, "--"+f.Name+"="+quoted(value))
		}
	})
	var commands []string
	for _, namespace := range namespacesOf(left) {
		words := []string{"kubectl", "windows", cmd.Name()}
		for _, t := range left {
			if t.Namespace == namespace {
				words = append(words, "wi/"+t.Name)
			}
		}
		commands = append(commands, strings.Join(append(append(words, "-n", namespace), flags...), " "))
	}
	return strings.Join(commands, "; ")
}

// plain matches what a shell takes as it is.
var plain = regexp.MustCompile(`^[A-Za-z0-9@%+=:,./_-]+$`)

// quoted is a word for a shell of Unix.
func quoted(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
