// The words of the tour, in the order of the article that kvrelay was founded on.
import type {Tab} from "../state/app";

export type Language = "en" | "ko";
export interface Scene {
  tab: Tab;
  step?: number; // index of a run; left out: the last
  split?: boolean; // the split answer of the comparison
}
export interface Step {
  scene: Scene;
  title: string;
  text: string[];
}
export interface Words {
  name: string;
  back: string;
  next: string;
  end: string;
  close: string;
  steps: Step[];
}

const SCENES: Scene[] = [
  {tab: "cache", step: 0},
  {tab: "compare"},
  {tab: "cache", step: 1},
  {tab: "cache", step: 2},
  {tab: "cache", step: 2},
  {tab: "journey", split: true},
];
const withScenes = (steps: Omit<Step, "scene">[]): Step[] => steps.map((step, i) => ({...step, scene: SCENES[i]}));

export const TOUR: {[language in Language]: Words} = {
  en: {
    name: "Tour",
    back: "Back",
    next: "Next",
    end: "Done",
    close: "Close the tour",
    steps: withScenes([
      {
        title: "Generation is a loop",
        text: [
          "Three tokens went in together: p0 p1 p2. The model computed all three, and the head turned the last of them into x0.",
          "Only when x0 is selected can it become the next input. Each row of the drawing is one turn of this loop.",
        ],
      },
      {
        title: "Without a cache, work repeats",
        text: [
          "The same request runs three times now. Without a cache every run takes the whole text again: orange is computed for " +
            "the first time, purple is computed again.",
          "The tokens are the same to the bit. Only the work repeats, and it grows with the square of the length.",
        ],
      },
      {
        title: "With a cache, one position a run",
        text: [
          "Run 2 takes x0 alone. Its K and V are appended to the cache: the orange path.",
          "Its query reads the K and V of everything before, and its own: the green path. Nothing of the past is computed again.",
        ],
      },
      {
        title: "Read, not recomputed",
        text: [
          "The past is not gone. A later token changes nothing at earlier positions, so their K and V stay what they were, and " +
            "each new query reads all of them.",
          "Old queries are never used again: the cache holds K and V only.",
        ],
      },
      {
        title: "Selected is not ready",
        text: [
          "Look at the thick line: K and V are ready on its left. The dashed cell on its right is the token that this run selected.",
          "The run that selects a token never computes its K and V. History and cache grow together, one step apart; the last " +
            "token of a request never gets any, for nobody will read them.",
        ],
      },
      {
        title: "Two kinds of run, two kinds of worker",
        text: [
          "The first run computes many positions at once; each later one computes one and reads many. That is why kvrelay can run " +
            "them on different workers and ship the K and V between them.",
          "This is the split answer of the comparison. The light blue part was shipped while the prompt was still being computed; " +
            "under the cells of its first run a blue bar shows which positions went.",
        ],
      },
    ]),
  },
  ko: {
    name: "둘러보기",
    back: "이전",
    next: "다음",
    end: "마침",
    close: "둘러보기 닫기",
    steps: withScenes([
      {
        title: "생성은 반복입니다",
        text: [
          "토큰 세 개 p0 p1 p2가 한꺼번에 들어갔습니다. 모델이 셋을 모두 계산하고, 마지막 위치의 결과에서 x0이 선택되었습니다.",
          "x0이 선택된 다음에야 x0은 다음 입력이 될 수 있습니다. 그림의 한 줄이 이 반복의 한 번입니다.",
        ],
      },
      {
        title: "캐시가 없으면 같은 일을 되풀이합니다",
        text: [
          "지금 같은 요청이 세 번 실행됩니다. 캐시가 없으면 매번 전체 문맥을 다시 넣습니다. 주황색은 처음 계산한 위치, 보라색은 다시 계산한 위치입니다.",
          "선택되는 토큰은 비트까지 같습니다. 되풀이되는 것은 일뿐이고, 그 양은 길이의 제곱으로 늘어납니다.",
        ],
      },
      {
        title: "캐시가 있으면 한 번에 한 위치",
        text: [
          "2번 실행에는 x0만 들어갑니다. x0의 K와 V가 캐시에 추가됩니다. 주황색 경로입니다.",
          "x0의 Q는 앞의 모든 K, V와 자신의 K, V를 읽습니다. 초록색 경로입니다. 지난 위치는 다시 계산하지 않습니다.",
        ],
      },
      {
        title: "다시 계산하지 않고 읽습니다",
        text: [
          "지난 문맥은 사라지지 않습니다. 뒤의 토큰은 앞 위치를 바꾸지 못하므로 앞의 K와 V는 그대로이고, 새 Q가 그것을 모두 읽습니다.",
          "지난 Q는 다시 쓰이지 않습니다. 그래서 캐시에는 K와 V만 있습니다.",
        ],
      },
      {
        title: "선택된 것과 준비된 것은 다릅니다",
        text: [
          "굵은 선을 보세요. 왼쪽은 K와 V가 준비된 위치입니다. 오른쪽 점선 칸은 이 실행이 선택한 토큰입니다.",
          "토큰을 선택한 실행은 그 토큰의 K와 V를 계산하지 않습니다. 출력과 캐시는 한 걸음 차이로 함께 자라고, 마지막 토큰의 KV는 아무도 읽지 않으므로 만들어지지 않습니다.",
        ],
      },
      {
        title: "두 종류의 실행, 두 종류의 작업자",
        text: [
          "첫 실행은 여러 위치를 한꺼번에 계산하고, 그다음부터는 하나를 계산하고 많이 읽습니다. 그래서 kvrelay는 둘을 다른 작업자에게 맡기고 K와 V를 보낼 수 있습니다.",
          "비교에서 나누어 실행한 답의 여정입니다. 연한 파란색은 프롬프트를 계산하는 동안 보낸 부분입니다. 첫 실행의 칸 아래 파란 막대가 보낸 위치를 보여 줍니다.",
        ],
      },
    ]),
  },
};
