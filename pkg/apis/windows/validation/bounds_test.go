// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package validation

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/install"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// TestTextsAreBounded: whoever may write objects in one namespace fills no memory with them. Each text of a spec, each key and each value of its
// maps, and each of its lists, has an upper limit.
func TestTextsAreBounded(t *testing.T) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	for _, kind := range []struct {
		object   runtime.Object
		validate func(runtime.Object) field.ErrorList
	}{
		{&v1alpha1.WindowsInstance{}, func(o runtime.Object) field.ErrorList {
			internal := &windows.WindowsInstance{}
			if err := scheme.Convert(o, internal, nil); err != nil {
				t.Fatal(err)
			}
			return ValidateWindowsInstance(internal)
		}},
		{&v1alpha1.WindowsNodePool{}, func(o runtime.Object) field.ErrorList {
			internal := &windows.WindowsNodePool{}
			if err := scheme.Convert(o, internal, nil); err != nil {
				t.Fatal(err)
			}
			return ValidateWindowsNodePool(internal)
		}},
	} {
		looked := 0
		for more := true; more; looked++ {
			object := reflect.New(reflect.TypeOf(kind.object).Elem())
			spec := object.Elem().FieldByName("Spec")
			fill(spec)
			at, path := 0, ""
			walk(spec, "spec", func(of string, enlarge func()) {
				if at++; at == looked+1 {
					path = of
					enlarge()
				}
			})
			if more = path != ""; !more {
				break
			}
			o := object.Interface().(runtime.Object) //nolint:forcetypeassert // see the list
			refused := slices.ContainsFunc(append(scheme.Validate(t.Context(), nil, o), kind.validate(o)...), func(err *field.Error) bool {
				return err.Field != "spec" && (strings.HasPrefix(path, err.Field) || strings.HasPrefix(err.Field, path+"["))
			})
			if !refused {
				t.Errorf("%T: %.100s may have a megabyte", o, path)
			}
		}
		if looked < 10 {
			t.Errorf("%T: only %d texts were looked at", kind.object, looked)
		}
	}
}

// fill gives each field of a value something, and each list and map one element.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		switch v.Interface().(type) {
		case metav1.Time, metav1.Duration, intstr.IntOrString:
			return
		}
		for _, field := range v.Fields() {
			if field.CanSet() {
				fill(field)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		value := reflect.New(v.Type().Elem()).Elem()
		fill(value)
		v.SetMapIndex(reflect.ValueOf("a").Convert(v.Type().Key()), value)
	case reflect.String:
		v.SetString("a")
	case reflect.Int32, reflect.Int64:
		v.SetInt(1)
	}
}

// many is how many elements are too many for any list and map, and long a text that is too long.
const many = 1 << 12

var (
	long = strings.Repeat("a", 1<<20)
	// texts are words, and numbers, which other checks let through.
	texts = []string{long, strings.Repeat("1", 1<<20), strings.Repeat("0", 1<<20) + "1"}
)

// walk calls do with each text, list and map of a value, and what makes it large.
func walk(v reflect.Value, path string, do func(path string, set func())) {
	switch v.Kind() {
	case reflect.Pointer:
		walk(v.Elem(), path, do)
	case reflect.Struct:
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			if name == "" {
				continue
			}
			walk(v.Field(i), path+"."+name, do)
		}
	case reflect.Slice:
		do(path, func() {
			list := reflect.MakeSlice(v.Type(), 0, many)
			for i := range many {
				element := reflect.New(v.Type().Elem()).Elem()
				fill(element)
				if element.Kind() == reflect.String {
					element.SetString(fmt.Sprint("a", i))
				}
				list = reflect.Append(list, element)
			}
			v.Set(list)
		})
		walk(v.Index(0), path+"[0]", do)
	case reflect.Map:
		key := func(text string) reflect.Value { return reflect.ValueOf(text).Convert(v.Type().Key()) }
		one := v.MapIndex(key("a"))
		do(path, func() {
			for i := range many {
				v.SetMapIndex(key(fmt.Sprint("a", i)), one)
			}
		})
		if v.Type().Elem().Kind() == reflect.String {
			do(path+"["+long+"]", func() { v.SetMapIndex(key(long), one) })
			for _, name := range []string{"a", "memory.available"} { // some maps have but names that are known
				for _, text := range texts {
					do(path+"["+name+"]", func() { v.SetMapIndex(key(name), reflect.ValueOf(text).Convert(v.Type().Elem())) })
				}
			}
		}
	case reflect.String:
		for _, text := range texts {
			do(path, func() { v.SetString(text) })
		}
	}
}
