// A component that is drawn again only when its properties have changed, as `same` sees it.
import {Component, type ComponentChild, type FunctionComponent, h} from "preact";

export function memo<P extends object>(
  inner: FunctionComponent<P>,
  same: (a: P, b: P) => boolean,
): FunctionComponent<P> {
  class Memo extends Component<P> {
    shouldComponentUpdate(next: P): boolean {
      return !same(this.props as P, next);
    }
    render(): ComponentChild {
      return h(inner as FunctionComponent<object>, this.props);
    }
  }
  return Memo as unknown as FunctionComponent<P>;
}
